// Makes the index of a trace, and goes on with it when the trace has grown: only blocks that are new are read.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "server/timeline/index.hpp"
#include "server/timeline/track_builder.hpp"

namespace tracesmith::server {

/// One thread at a time. Names keep their numbers from call to call (trace::NameNumbers::load).
class IndexBuilder {
 public:
  IndexBuilder();
  ~IndexBuilder();

  /// Reads the blocks it has not seen. `progress` goes from 0 to 1000; stops when `stop` is set.
  Status add(const trace::Reader& reader, const trace::NameNumbers& names, const trace::Clocks& clocks, size_t threads,
             std::atomic<int>& progress, const std::atomic<bool>& stop);
  /// What has been read so far. `last`: nothing will be added, what is here may go.
  std::unique_ptr<TimelineIndex> index(const trace::NameNumbers& names, bool last);

 private:
  struct Worker;
  bool findSpan(const trace::Reader& reader, const trace::Clocks& clocks);
  void unite(std::vector<std::unique_ptr<Worker>>& workers, const std::vector<uint32_t>& made_by, size_t first);
  static void absorb(Worker& worker, uint32_t summary, int64_t origin, uint32_t shift, int64_t long_ns,
                     BlockSummary& out);

  size_t seen_ = 0;  // blocks of the reader
  int64_t origin_ = 0, end_ = 0;
  uint32_t shift_ = 0;
  int64_t long_ns_ = 1;
  // Tracks in the order they were met.
  TrackNumbers numbers_;
  std::vector<TrackBuilder> builders_;
  std::vector<std::vector<uint32_t>> blocks_of_;
  std::vector<BlockSummary> summaries_;
};

}  // namespace tracesmith::server
