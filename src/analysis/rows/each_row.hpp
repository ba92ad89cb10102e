// Rows, and whose they are.
#pragma once

#include "trace/name_numbers.hpp"
#include "trace/rows.hpp"

namespace tracesmith::analysis {

using trace::eachRow;

/// A process as the analyses number it: its rank, or −1 − pid.
inline int64_t processOf(int64_t rank, int64_t pid) {
  return rank != trace::kNull ? rank : pid != trace::kNull ? -1 - pid : -1;
}

}  // namespace tracesmith::analysis
