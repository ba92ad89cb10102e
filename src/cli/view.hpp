// The two ways to look at a trace on a terminal.
#pragma once

#include <string>

#include "tracesmith/trace/scan.hpp"

namespace tracesmith::cli {

struct ViewOptions {
  size_t count = 0;  ///< rows of the table, lines of the timeline
  size_t width = 80;
  bool json = false, threads = false;
  int64_t start_ns = 0;  ///< first event of the trace: what times are shown relative to
};

/// The first matching rows of a table in order of time (of a table without times, in that of the file).
Status viewRows(const trace::Reader& reader, const trace::TableInfo& table, const trace::Selection& selection,
                const ViewOptions& options);
/// What every stream did over time: a line each, a character for each span of time.
Status viewTimeline(const trace::Reader& reader, const trace::Selection& selection, const ViewOptions& options);

}  // namespace tracesmith::cli
