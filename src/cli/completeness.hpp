// What an answer from a master's store rests on: which nodes are in it, and up to when.
#pragma once

#include <string>
#include <vector>

#include "model/travel.hpp"

namespace tracesmith::cli {

struct Completeness {
  std::string summary;               ///< "4 nodes, all complete; clocks within 12 µs"
  std::vector<std::string> missing;  ///< nodes that failed or are late, a sentence for each
};

/// Of a session by name or id; empty: of all that is stored.
Completeness completenessOf(const model::ClusterStatus& status, const std::string& session);

}  // namespace tracesmith::cli
