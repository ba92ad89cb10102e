// Follows the rings of a node's processes without taking anything from them, and says what each process is at: steps,
// collectives, operations in flight. Works whether somebody records or not.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "analysis/live/report.hpp"
#include "capture/collect/nccl_join.hpp"
#include "capture/collect/nccl_times.hpp"
#include "capture/collect/training_now.hpp"
#include "capture/ring/folders.hpp"
#include "capture/ring/reader.hpp"
#include "model/ring/program_records.hpp"

namespace tracesmith::cluster {

/// One process. Not thread safe.
class RingFollower {
 public:
  explicit RingFollower(std::unique_ptr<ring::RingReader> ring) : ring_(std::move(ring)) {}

  /// Reads what came since the last call and sums it up; `now_ns`: raw clock.
  analysis::live::ProcessReport report(uint64_t now_ns);
  ring::RingReader& ring() { return *ring_; }
  uint64_t dead_ns = 0;  ///< when it was seen to be gone; 0: it runs

 private:
  struct Progress {
    analysis::live::OpProgress state;
    uint64_t touched = 0;  // the larger, the later
  };
  struct Comm {
    analysis::live::CommState state;
    uint64_t touched = 0;
    std::map<std::pair<uint32_t, int32_t>, Progress> progress;  // by operation (its string) and peer
    // By operation, size and peer.
    std::map<std::tuple<std::string, int64_t, int32_t>, analysis::live::Transfers> transfers;
  };
  struct Step {
    int64_t step;
    uint64_t start, end;
    int64_t comm_ns;
  };
  bool wanted(const ring::Record& record);
  bool recorded(const Step& step) const;
  bool isNccl(uint32_t name);
  void read();
  void readAnew();
  void take(uint32_t lane, const ring::Record& record);
  void ended(const capture::NcclJoin::Operation& operation, const ring::KernelRecord* kernel);
  void timed(const ring::OperationRecord& operation);
  void takeStep(const ring::StepRecord& step);
  void takeHost(const ring::HostOperationRecord& operation);
  bool tellsHost(uint64_t comm, uint64_t now_ns, analysis::live::ProcessState state) const;
  void addHost(uint64_t now_ns, analysis::live::ProcessReport& report) const;
  analysis::live::InFlight inFlight(uint64_t now_ns, const ring::OperationRecord& operation,
                                    const analysis::live::CommState* comm) const;
  template <typename Each>
  void eachUnrecorded(const Each& each) const;
  void addUnseen(uint64_t now_ns, analysis::live::ProcessReport& report) const;
  void addInFlight(uint64_t now_ns, analysis::live::ProcessReport& report) const;
  void addProcess(uint64_t now_ns, analysis::live::ProcessReport& report);
  Comm& comm(uint64_t hash);
  Comm& comm(const ring::OperationRecord& operation);
  /// Of an operation by its name (a string of the ring) and peer.
  analysis::live::OpProgress& progress(Comm& comm, uint32_t name, int32_t peer);
  static void addProgress(const Comm& comm, analysis::live::CommState& state, uint64_t& left_out);
  // CUPTI hands kernels over late: many that have ended may still look as if they were in flight.
  static constexpr size_t kMostPerStream = 32;
  // A ring is its user's word, and everybody's reports go the same way: what is kept of one has a limit.
  static constexpr size_t kMostComms = 256;

  std::unique_ptr<ring::RingReader> ring_;
  ring::Cursors cursors_;
  bool first_ = true, again_ = false;
  uint64_t missed_ = 0, touched_ = 0;
  uint64_t left_out_ = 0;  // communicators, peers and sizes that there was no room for
  uint64_t activity_ = 0, oldest_gpu_ns_ = 0, last_work_ns_ = 0;
  int64_t longest_wait_ns_ = 0;
  uint64_t cpu_ns_ = 0, io_bytes_ = 0, cpu_at_ns_ = 0;  // CPU time and I/O of the process, and when they were read
  capture::NcclJoin join_;
  capture::NcclTimes times_;
  std::map<uint64_t, Comm> comms_;
  std::map<uint64_t, std::deque<ring::OperationRecord>> unseen_;  // whose end nobody sees, the last of a communicator
  struct HostGroup {
    std::deque<ring::HostOperationRecord> open;  // that have not ended, oldest first
    uint64_t end = 0;                            // of the last that has
  };
  std::map<uint64_t, HostGroup> host_;          // operations of gloo and the like, by communicator
  std::map<uint32_t, uint64_t> stream_end_;     // of the last NCCL kernel, by stream
  std::unordered_map<uint32_t, bool> is_nccl_;  // kernels, by name
  std::deque<Step> steps_;                      // that have ended; their last kernels may still come
  capture::TrainingNow training_;
};

/// Operations launched while the GPU was not recorded, as far as was read.
template <typename Each>
void RingFollower::eachUnrecorded(const Each& each) const {
  for (const auto& [stream, state] : join_.streams)
    for (const capture::NcclJoin::Launch& launch : state.launches)
      if (!join_.recorded(launch))
        for (const capture::NcclJoin::Operation& o : launch.operations)
          if (!o.record.captured && o.record.sequence != ring::kUnknown) each(o.record);
}

/// All processes under a folder of rings. Not thread safe.
class RingWatch {
 public:
  /// `node`: of the simulated processes in the folder only those of this node are looked at.
  RingWatch(std::string folder, std::string node)
      : folders_(std::move(folder), ring::RingFolders::rootsFromEnvironment()), node_(std::move(node)) {}
  std::vector<analysis::live::ProcessReport> report();

 private:
  void look(uint64_t now_ns);

  ring::RingFolders folders_;
  const std::string node_;
  std::map<std::string, std::unique_ptr<RingFollower>> rings_;  // by path; null: not ours
};

}  // namespace tracesmith::cluster
