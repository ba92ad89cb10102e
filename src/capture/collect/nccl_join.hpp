// Finds the kernel of each NCCL operation: NCCL tells what it launched, CUPTI what ran, and kernels run on their stream
// in the order they were launched. One process each.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/ring/records.hpp"

namespace tracesmith::capture {

struct NcclJoin {
  struct Operation {
    ring::OperationRecord record;
    int64_t tid = 0;     // thread that called it
    bool mixed = false;  // its kernel works for other communicators or peers too; known when it is done
  };
  /// One NCCL kernel launch and the operations in it.
  struct Launch {
    uint64_t start = 0, end = 0;
    std::vector<Operation> operations;
    uint32_t turn = 0;  // of giveUpUnseen()
  };
  /// Called for each operation whose kernel was found, or (nullptr) will not be found any more.
  using Done = std::function<void(const Operation&, const ring::KernelRecord* kernel)>;
  using Text = std::function<std::string_view(uint32_t)>;  // of a string id of the ring

  void launch(uint32_t lane, const ring::LaunchRecord& record);
  void operation(uint32_t lane, const ring::OperationRecord& record, int64_t tid, const Done& done);
  void kernel(const ring::KernelRecord& record, const Text& text, const Done& done);
  /// The GPU's work is recorded from a moment on, or no longer.
  void gpu(const ring::Record& record) { (record.kind == ring::Kind::gpu_on ? gpu_on_ns : gpu_off_ns) = record.start; }
  bool gpuIsOff() const { return gpu_off_ns > gpu_on_ns; }
  /// Whether the GPU's work was not recorded at that moment, as far as the last gap tells.
  bool unseen(uint64_t launched) const {
    return gpu_off_ns != 0 && launched >= gpu_off_ns && (gpuIsOff() || launched < gpu_on_ns);
  }
  /// Gives up launches that nobody sees end, but for the last ones of each stream. Called each time the rings have been
  /// read: lanes are read one after the other, so that only those that were there the last time are told for sure.
  void giveUpUnseen(size_t keep, const Done& done);
  /// What still waits: in flight, or its kernel will never come.
  void giveUp(const Done& done) const;

  std::map<uint32_t, std::deque<Launch>> launches;  // by stream, in the order they were launched; 0: stream not known
  std::map<uint32_t, uint32_t> lane_stream;         // stream of the last launch on a lane
  uint64_t gpu_on_ns = 0;                           // kernels launched before are not recorded,
  uint64_t gpu_off_ns = 0;                          // nor those launched since, if it is later
  uint32_t turn = 0;
  std::unordered_map<uint32_t, bool> is_nccl;  // by string id: a kernel of NCCL
};

}  // namespace tracesmith::capture
