// What `--keep summary` keeps of a trace: for each rank and step where the time went (`step_summaries`) and one row for
// each name of its events (`event_summaries`). Operations, steps, telemetry, losses and marks stay as they are; of all
// other events only those stay that took much longer than usual.
#pragma once

#include <cstdint>
#include <map>

#include "analysis/summary/sketch.hpp"
#include "tracesmith/trace/reader.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::analysis {

/// How far the processes of a recording have been summarised, where that is done piece by piece.
struct SummaryState {
  struct Process {
    int64_t until = INT64_MIN;  ///< raw clock: what began before is in the summary
    bool begun = false;         ///< some of its steps are
    int64_t host_late = 0;      ///< of its last operation
  };
  std::map<int64_t, Process> processes;
  int64_t until = INT64_MIN;  ///< raw clock: everything before is in the summary
};

struct SummaryOptions {
  /// Steps that nobody marked are not looked for: stretches as long as this take their place. 0: they are looked for.
  int64_t window_ns = 0;
  int64_t until = INT64_MAX;       ///< raw clock: steps that may go on after it wait for the next piece,
  trace::Writer* later = nullptr;  ///< where their rows go
  SummaryState* state = nullptr;
  size_t threads = 0;
};

struct SummaryStats {
  uint64_t events = 0, kept = 0;  ///< kept: as events
  uint64_t rank_steps = 0;
};

/// An event is kept if it lasts this many times as long as half of those of its rank, name and launch shape,
constexpr double kOutlierMedian = 4;
/// and this many times as long as nine tenths of them.
constexpr double kOutlierMost = 2;
constexpr uint64_t kOutlierLeast = 20;  ///< so many must be known to say what is usual
constexpr size_t kOutliers = 8;         ///< at most so many of a rank and step, the longest
bool isOutlier(const Sketch& usual, int64_t ns);

Result<SummaryStats> summarize(const trace::Reader& whole, trace::Writer& out, const SummaryOptions& options = {});

}  // namespace tracesmith::analysis
