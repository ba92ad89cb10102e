// An operation of NCCL on its way to its kernel.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "model/ring/nccl_records.hpp"

namespace tracesmith::capture {

struct NcclOperation {
  ring::OperationRecord record;
  int64_t tid = 0;      // thread that called it
  bool mixed = false;   // its kernel works for other communicators or peers too; known when it is done
  uint64_t group = 0;   // of calls; 0: not known
  bool hidden = false;  // its own times are not recorded: it ran within something else (a CUDA graph), or as copies
};

/// Called for each operation whose kernel was found, or (nullptr) will not be found any more. Of a hidden one the
/// kernel stands for what it ran in, and has no length.
using NcclDone = std::function<void(const NcclOperation&, const ring::KernelRecord* kernel)>;
using RingText = std::function<std::string_view(uint32_t)>;  // of a string id of the ring

/// Whether a kernel of this name can be the one of these operations: NCCL puts the function into it, if it is only for
/// one.
bool fits(const std::vector<NcclOperation>& operations, std::string_view kernel, const RingText& text);

/// What those who join know besides.
struct JoinTime {
  uint64_t now = 0;      // UINT64_MAX: nothing more will come
  uint64_t hold_ns = 0;  // how long a record waits for those before it
  uint64_t gpu_on_ns = 0, gpu_off_ns = UINT64_MAX;

  bool waited(uint64_t since) const { return now == UINT64_MAX || since + hold_ns <= now; }
  bool recorded(uint64_t start, uint64_t end) const { return end >= gpu_on_ns && start < gpu_off_ns; }
};

}  // namespace tracesmith::capture
