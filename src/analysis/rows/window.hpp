// What one device did in a stretch of time: the slice a timeline draws.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

struct WindowQuery {
  std::string node;
  int64_t device = 0;
  int64_t from = 0, to = 0;  ///< rows that overlap [from, to)
};

/// One event with all its columns as slots. `args` is its own text.
struct WindowRow {
  trace::EventRow row;
  const trace::Strings* strings = nullptr;  ///< what the ids in the row's Str and Launch slots stand for
  std::string args;
};

/// The matching rows, in the order of the file. Damaged blocks are left out (and in reader.damage()).
Result<std::vector<WindowRow>> window(const trace::Reader& reader, const WindowQuery& query);

}  // namespace tracesmith::analysis
