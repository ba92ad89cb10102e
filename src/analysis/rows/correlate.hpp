// Launches and the device work they started: joined by process and correlation id, process by process, so that the
// memory it takes does not grow with the trace.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "tracesmith/common/status.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

/// One kernel (copy, set) and the call that launched it. What was not measured is kNull.
struct LaunchPair {
  int64_t launch_ts, launch_dur;
  int64_t ts, dur;
  int64_t rank;
  uint32_t name;  ///< id in the strings of the block's stream
  trace::EventType type;
};

struct CorrelateOptions {
  uint64_t launch_types =
      1ull << static_cast<int>(trace::EventType::runtime) | 1ull << static_cast<int>(trace::EventType::driver);
  uint64_t work_types = 1ull << static_cast<int>(trace::EventType::kernel) |
                        1ull << static_cast<int>(trace::EventType::memcpy) |
                        1ull << static_cast<int>(trace::EventType::memset);
  size_t threads = 0;                  ///< 0: all cores
  size_t memory_bytes = 256ull << 20;  ///< for the launches held at one time, all threads together
};

/// Pairs of one block, on one of the threads: `worker` says which, 0 … threads − 1.
using PairVisitor = std::function<void(const trace::Block& block, std::span<const LaunchPair> pairs, size_t worker)>;

/// Visits every pair once. Of several launches with the same id the last one counts. Damaged blocks are left out.
/// A process is its rank, or its pid where no rank is known.
Status correlate(const trace::Reader& reader, const CorrelateOptions& options, const PairVisitor& visit);

/// Threads that correlate() uses with these options.
size_t correlateThreads(const CorrelateOptions& options);

}  // namespace tracesmith::analysis
