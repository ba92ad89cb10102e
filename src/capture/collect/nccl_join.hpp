// Finds the kernel of each NCCL operation: NCCL reports what it launched, CUPTI what ran. One object per process.
//
// Records do not come in order: each thread has a lane, and CUPTI has a buffer for each thread, which it hands over
// when everything in it has ended. So nothing is joined merely because it came next:
//  - Where launch calls are recorded, the call within NCCL's launch on its thread has the correlation of the kernel.
//  - Otherwise kernels wait a while for those that began before them, and then the kernels of a stream are those of its
//    launches, in order. NCCL puts the function into a kernel's name: one that does not fit shows that a kernel was
//    lost. One that comes when later ones have been joined shows that they were given too early: what came since is
//    counted as doubtful, and the next ones are right again. Where CUPTI or the ring lost records, a launch that
//    nothing ran for is passed over as soon as the stream is seen to have caught up with its launches otherwise.
//
// An operation that is captured into a CUDA graph runs when the graph does: graph_join.hpp. Where launches of graphs
// are not seen, NCCL tells of the operation once, when it is captured, or (if its proxy has work to do) with each
// replay. The graph's kernels are joined with what was told of the replays, in order; else with what was captured, as
// far as that is the same for all of its function.
//
// Where a process has captured operations into graphs, NCCL tells of others, too, on a thread of CUDA's, before or
// after their launch: these are found by the group of calls that both are for (late_join.cpp).
//
// A collective that the copy engines do has no kernel. Its copies are those of the copy calls in it: it lasts from the
// first to the last. Without calls nobody knows which they are.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "capture/collect/graph_join.hpp"
#include "model/ring/nccl_records.hpp"

namespace tracesmith::capture {

/// Whether an operation is in a group of calls, as far as is known: it carries the low bits of the number.
inline bool isOf(uint64_t group, uint32_t operations) {
  return operations == 0 || group == 0 || static_cast<uint32_t>(group) == operations;
}

/// Causes in the table `losses`.
constexpr const char* kLostKernels = "operations without a kernel";
constexpr const char* kLoneKernels = "NCCL kernels without an operation";
constexpr const char* kDoubtedKernels = "operations that may have another's kernel";
constexpr const char* kHiddenReplays = "operations in CUDA graphs";
constexpr const char* kHiddenCopies = "operations done by copy engines";

class NcclJoin {
 public:
  using Operation = NcclOperation;
  using Done = NcclDone;
  using Text = RingText;
  /// One NCCL kernel launch and the operations in it.
  struct Launch {
    uint64_t start = 0, end = 0;
    uint32_t lane = 0;
    int64_t tid = 0;                     // 0: not known
    std::vector<uint32_t> correlations;  // of the launch calls in it
    std::vector<Operation> operations;
    uint64_t since = 0;  // when it was read, or a little before
    bool copies = false;
    std::vector<ring::CopyRecord> copied;  // of copies: those that have ended
    uint64_t copied_at = 0;                // when the last of them was read
    uint64_t group = 0;                    // of calls; 0: not known

    /// Whether there is one of each call.
    bool allCopied() const;
  };
  struct Held {
    ring::KernelRecord kernel;
    uint64_t since = 0;  // when it was read
  };
  /// How far a stream has come.
  struct Stream {
    std::deque<Launch> launches;            // that wait for their kernel, in the order they were launched
    uint64_t launch_start = 0;              // of the last one joined
    uint64_t kernel_start = 0, passed = 0;  // of its kernel; nothing launched before `passed` gets a kernel
    struct Joined {
      uint64_t launch_start, at;
    };
    std::deque<Joined> joined;  // lately
    struct Ran {
      uint64_t kernel_start;
      bool doubted = false;
    };
    std::deque<Ran> ran;  // kernels joined by order, the last ones
  };
  void launch(uint32_t lane, const ring::LaunchRecord& record, int64_t tid, const Done& done);
  void operation(uint32_t lane, const ring::OperationRecord& record, int64_t tid, const Done& done);
  void call(const ring::CallRecord& record, const Text& text, const Done& done);
  /// `now`: of the reader's clock, as in pass().
  void kernel(const ring::KernelRecord& record, uint64_t now, const Text& text, const Done& done);
  void copy(const ring::CopyRecord& record, uint64_t now);
  /// A run of a CUDA graph as a whole.
  void graph(const ring::GraphRecord& record, uint64_t now) { graphs.run(record, now); }
  /// From then on the GPU's work is recorded again (kernels of earlier launches that are not here will not come), or,
  /// if off, is not recorded.
  void gpu(const ring::GpuOnRecord& record, const Text& text, const Done& done);
  /// Whether its kernels are recorded, as far as was read.
  bool recorded(const Launch& l) const { return time(0).recorded(l.start, l.end); }
  bool gpuIsOff() const { return gpu_off_ns != UINT64_MAX; }
  /// Call it when everything there has been read: joins what has waited long enough.
  void pass(uint64_t now, const Text& text, const Done& done);
  /// No more records from before now will be read: joins everything that can be joined.
  void settle(const Text& text, const Done& done) { pass(UINT64_MAX, text, done); }
  /// What still waits: in flight. Returns how many.
  size_t giveUp(const Text& text, const Done& done);
  /// Launches of a stream that may be in flight, for live views: without those whose kernels wait to be joined.
  std::vector<const Launch*> inFlight(const Stream& stream, uint32_t id) const;
  /// The same for replays of CUDA graphs.
  std::vector<GraphJoin::InFlight> replaysInFlight(const Text& text) const { return graphs.inFlight(time(0), text); }

  std::map<uint32_t, Stream> streams;  // by id; 0: not known
  std::deque<Held> held;               // kernels of NCCL, not joined yet
  struct Copy {
    ring::CopyRecord record;
    uint64_t since;
  };
  std::deque<Copy> copies;             // lately
  std::deque<ring::CallRecord> calls;  // that may belong to a launch that was not read yet
  uint64_t gpu_on_ns = 0;              // kernels launched before are not recorded,
  uint64_t gpu_off_ns = UINT64_MAX;    // nor those launched since then
  uint64_t hold_ns = 2'000'000'000;    // how long a kernel waits for those before it
  uint64_t missing = 0;                // records that CUPTI or the ring lost
  uint64_t counted_from = 0;           // what began before is not of the recording
  uint64_t lost = 0, lone = 0;         // counts of what could not be joined
  uint64_t doubted = 0;                // operations whose kernel came before one that came later
  uint64_t hidden_copies = 0;          // operations that ran as copies nobody knows
  size_t copies_waiting = 0;           // launches of copies
  GraphJoin graphs;

  /// The last launch of a lane, for operations that come after its kernel.
  struct Lane {
    uint32_t stream = 0;
    uint64_t launch_start = 0;
    std::optional<ring::KernelRecord> kernel;
    bool captured = false, graph = false;
    uint64_t group = 0;
  };
  std::map<uint32_t, Lane> lanes;
  /// An operation of which another thread told than launched it, before the launch was read.
  struct Early {
    Operation operation;
    uint32_t lane = 0;
    uint64_t since = 0;  // when it was read
  };
  std::deque<Early> early;
  /// A launch whose kernel was found before any operation in it was told.
  struct Untold {
    uint64_t group = 0, start = 0;
    ring::KernelRecord kernel;
    bool told = false;
  };
  std::deque<Untold> untold;                       // lately
  std::vector<Operation> captured;                 // one of each kind
  static constexpr uint32_t kGraphs = UINT32_MAX;  // stands for the streams of replays

 private:
  JoinTime time(uint64_t now) const { return {now, hold_ns, gpu_on_ns, gpu_off_ns}; }
  void drop(Launch& launch, bool is_lost, const Done& done);
  void join(Stream& stream, size_t index, const ring::KernelRecord& kernel, uint64_t now, const Done& done);
  bool joinCall(const ring::CallRecord& call, const Done& done);
  bool joinExactly(const ring::KernelRecord& kernel, uint64_t now, const Done& done);
  bool joinInOrder(const ring::KernelRecord& kernel, uint64_t now, const Text& text, const Done& done);
  void operationElsewhere(uint32_t lane, Operation operation, const Done& done);
  void takeEarly(Launch& launch);
  void passEarly(uint64_t now, const Done& done);
  void operationAlone(uint32_t stream, uint32_t lane, const Operation& operation, const Done& done);
  void capture(const Operation& operation);
  bool joinReplay(const ring::KernelRecord& kernel, const Text& text, const Done& done);
  bool resynchronise(Stream& stream, const ring::KernelRecord& late, const Done& done);
  size_t skipLost(const Stream& stream, size_t index, const ring::KernelRecord& kernel);
  void passOver(uint64_t now, const Done& done);
  void takeCopies();
  void passCopies(uint64_t now, const Done& done);
  void hide(const Launch& launch, const Done& done);

  uint64_t now_ = 0, first_launch_ = UINT64_MAX, newest_call_ = 0;
  uint64_t skipped_ = 0;  // launches, as kernels that were lost
  bool exact_ = false;    // a kernel was found by its correlation
  enum class Called { other, launch, graph, copy };
  std::unordered_map<uint32_t, bool> is_nccl_;    // by string id
  std::unordered_map<uint32_t, Called> call_is_;  // by string id
};

}  // namespace tracesmith::capture
