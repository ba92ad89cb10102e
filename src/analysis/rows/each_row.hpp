// Rows, and whose they are.
#pragma once

#include "trace/name_numbers.hpp"
#include "trace/rows.hpp"

namespace tracesmith::analysis {

using trace::eachRow;

/// A process as the analyses number it: its rank, or −1 − pid. Importers give negative pids to what is no process, such
/// as Kineto's "Spans": they are −1, as if they had none.
inline int64_t processOf(int64_t rank, int64_t pid) {
  return rank != trace::kNull ? rank : pid != trace::kNull && pid > 0 ? -1 - pid : -1;
}

}  // namespace tracesmith::analysis
