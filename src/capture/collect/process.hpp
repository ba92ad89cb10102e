// What a Collector knows about each process it follows. Only for the files of Collector itself.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "capture/collect/collector.hpp"
#include "capture/collect/nccl_join.hpp"

namespace tracesmith::capture {

struct Collector::Process {
  std::unique_ptr<ring::RingReader> ring;
  std::unordered_map<uint32_t, int64_t> names;  // ring string → trace string
  std::map<uint32_t, int64_t> lane_tids;
  NcclJoin nccl;
  int64_t node = trace::kNull;
  std::vector<uint64_t> cursors;           // of take(): records read, by lane
  uint64_t skipped = 0, skipped_told = 0;  // overwritten before take() came
  uint64_t losses_told[ring::kLossCauses] = {};
  bool described = false;
  bool ended = false;  // seen dead at the last dropEnded()

  int64_t rank() const {
    int32_t r = ring->header().rank.load();
    return r < 0 ? trace::kNull : r;
  }
};

}  // namespace tracesmith::capture
