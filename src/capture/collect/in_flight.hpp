// What a process under the probe is waiting for: NCCL operations that were launched and whose kernels have not ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "capture/ring/reader.hpp"

namespace tracesmith::capture {

struct InFlight {
  std::string node;
  int64_t pid = 0;
  int32_t rank = -1;  ///< of the job; -1: not known
  std::string op, comm;
  uint64_t seq = 0;
  int32_t group_rank = -1, group_size = -1, peer = -1;
  int64_t bytes = 0;
  uint32_t stream = 0;
  uint64_t enqueue_ns = 0;  ///< raw clock
  bool simulated = false;
  bool stopped = false;  ///< the process is stopped (SIGSTOP, a debugger)
};

/// From copies of what the rings hold, oldest first. What a ring does not reach back to is left out, and so is what
/// another rank has seen end: CUPTI hands kernels over late, and not at all while their neighbour in its buffer runs.
/// Of operations launched while the GPU's work was not recorded those are told that another process here has not
/// launched.
std::vector<InFlight> operationsInFlight(const std::vector<std::unique_ptr<ring::RingReader>>& rings);

/// A communicator's name in the table collectives.
std::string ncclCommName(uint64_t hash);

}  // namespace tracesmith::capture
