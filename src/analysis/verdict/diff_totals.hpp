// Counts and times by name, for diff.
#pragma once

#include <map>
#include <set>
#include <string>

#include "tracesmith/analysis/diff.hpp"

namespace tracesmith::analysis {

struct Total {
  double count = 0, us = 0;
};

/// Counts and times by name: of the whole trace but for what comes before its first marked step and after its last one,
/// and of one step of one rank.
struct NameTotals {
  std::map<std::pair<bool, std::string>, Total> all, one;
  int64_t rank = trace::kNull, step = trace::kNull;
  std::set<int64_t> ranks, steps;
};
Result<NameTotals> totalsOf(const trace::Reader& reader, const DiffOptions& options);

}  // namespace tracesmith::analysis
