// What changed between two traces, on which ranks, and how sure that is: a Diff, as verdict.def declares it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/common/export.hpp"

namespace tracesmith::analysis {

struct DiffOptions {
  size_t threads = 0;  ///< 0: all cores
  std::string comm_rules;
  int64_t rank = trace::kNull;  ///< whose events are compared by name; kNull: the first of each trace
  int64_t step = trace::kNull;  ///< in which step; kNull: the first of each trace
};

TRACESMITH_API Result<Diff> diff(const trace::Reader& a, const trace::Reader& b, const DiffOptions& options = {});
TRACESMITH_API std::string toJson(const Diff& diff, const std::string& a, const std::string& b);

}  // namespace tracesmith::analysis
