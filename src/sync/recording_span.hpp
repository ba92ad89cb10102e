// How long a recording is: one answer for `info`, the analysis and the page.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "trace/clocks.hpp"

namespace tracesmith::sync {

/// Times of the reference clock, ns.
struct Span {
  int64_t start = 0, end = 0;
};

/// When the rows of blocks began and ended. One per thread; must not outlive the reader and the clocks.
class BlockSpans {
 public:
  BlockSpans(const trace::Reader& reader, const trace::Clocks& clocks)
      : reader_(reader), clocks_(clocks), decoder_(reader) {}
  /// From its zones where all rows are of one node, else row by row. Nothing: no row has a time.
  std::optional<Span> of(const trace::Block& block);

 private:
  const trace::ClockTable& clockOf(uint32_t stream, int64_t node);

  const trace::Reader& reader_;
  const trace::Clocks& clocks_;
  trace::BlockDecoder decoder_;
  trace::ColumnData nodes_, times_, durations_;
  std::map<std::pair<uint32_t, int64_t>, const trace::ClockTable*> known_;
};

/// Whether a row of this table is something that a rank did: an event, its part in a collective, a step.
bool isWork(const trace::TableInfo& table);

/// From the start of the first to the end of the last that ranks did. Where the trace has nothing of that kind, of all
/// that has a time (telemetry); nothing: there is none.
std::optional<Span> recordingSpan(const trace::Reader& reader, const trace::Clocks& clocks);

}  // namespace tracesmith::sync
