// A model of a training job with data, tensor and pipeline parallel groups, as the watcher of a cluster sees it: one
// report a second from every node. Hours of hundreds of ranks in seconds; nothing is measured.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/live/report.hpp"
#include "capture/sim/job.hpp"

namespace tracesmith::bench {

using analysis::live::InFlight;
using analysis::live::NodeReport;
using analysis::live::ProcessReport;
using analysis::live::ProcessState;

constexpr int64_t kMs = 1'000'000, kS = 1'000'000'000, kNever = INT64_MAX / 4;

struct ModelFault {
  enum Kind { hang, stopped, died, silent_node, other_op, other_size, slow, slow_link, slow_pair } kind = hang;
  int rank = 0;     // of silent_node: any of its ranks; of slow_link: one of the communicator with slow transfers; of
                    // slow_pair: its link to the next stage (of the last one: to the one before)
  int step = 0;     // the first
  int op = 0;       // which of its communication operations, counted from 0, modulo their number; of slow_pair: 0 only
                    // forward, 1 only backward, 2 both, modulo 3
  double size = 0;  // of slow, slow_link, slow_pair: how much longer
};

struct ModelConfig {
  int pp = 1, dp = 8, tp = 1, per_node = 8, microbatches = 4;
  double step_s = 0.5;
  double noise = 0.04;          // of a computation
  double wander = 0.005;        // of a rank's speed, up and down within minutes
  double stall_rate = 0;        // host pauses per rank and second,
  double stall_ms = 0;          // of up to this
  int checkpoint_every = 0;     // steps; 0: never
  double checkpoint_s = 0;      // and how long
  bool saved_by_one = false;    // rank 0 saves, the others wait for it in a collective
  int ahead = 4;                // operations the host launches before the GPU comes to them
  bool stream_per_comm = true;  // else one stream for all
  int held = 0;                 // operations before the one it stands in whose end CUPTI keeps to itself, at most
  uint64_t seed = 1;
  std::vector<ModelFault> faults;
  int ranks() const { return pp * dp * tp; }
};

class LiveModel {
 public:
  explicit LiveModel(const ModelConfig& config);

  struct Due {
    int64_t at_ns = 0;
    NodeReport report;
  };
  /// Reports that come before `t`, in order. Times must grow.
  std::vector<Due> until(int64_t t);
  /// When the first rank began to wait for what never comes; kNever: nothing stands still so far.
  int64_t stalledAt() const { return stalled_ns_; }
  /// Ranks that stand still by themselves.
  const std::set<int>& culprits() const { return culprits_; }
  /// When the first step in which something is slow began; kNever: it has not.
  int64_t slowAt() const { return slow_ns_; }
  /// The communicator with slow transfers, or the link, as alerts name it.
  std::string slowComm() const;
  int nodeOf(int rank) const { return rank / config_.per_node; }
  const ModelConfig& config() const { return config_; }

 private:
  enum Kind { kCompute, kHost, kCollective, kSend, kRecv };
  enum Group { kTp, kDp, kPp, kWorld, kGroups };
  struct Op {
    Kind kind;
    Group group = kWorld;
    int instance = 0;  // of its communicator, in a step
    const char* name = "";
    int64_t bytes = 0, base_ns = 0;
    uint64_t seq = 0, per_step = 1;  // number in step 0, and how many of its name a step has
    int peer = -1;
    int boundary = -1;      // of a send or receive: the stage before it
    bool backward = false;  // of a send or receive
  };
  struct Comm {
    uint64_t hash = 0;
    const char* name = "";
    int size = 0;
  };
  struct Instance {
    std::vector<int> arrived;
    int64_t last_ns = 0;
    bool broken = false;
  };
  struct Span {
    int64_t enter = kNever, end = kNever;
  };
  struct StepData {
    int step = 0;
    std::vector<std::vector<Span>> spans;  // by rank and operation
    std::vector<int64_t> start;
  };
  struct Reader {  // how far a rank's reports have come
    size_t step = 0, op = 0;
    int64_t comm_ns = 0, last_end = 0;
    std::map<std::tuple<int, std::string, int>, analysis::live::OpProgress> progress;  // by group, operation and peer
  };

  int stage(int r) const { return r / (config_.dp * config_.tp); }
  int groupIndex(int r, Group g) const;
  int groupRank(int r, Group g) const;
  const std::vector<Op>& program(int r) const { return programs_[static_cast<size_t>(stage(r))]; }
  void makeProgram(int stage);
  void simulateStep();
  bool run(int rank, StepData& data, std::map<std::pair<int, int>, Instance>& instances, std::vector<size_t>& next,
           std::vector<int64_t>& time, std::deque<int>& ready);
  Group slowGroup() const { return config_.tp > 1 ? kTp : kDp; }
  int boundaryOf(int rank) const { return std::min(stage(rank), config_.pp - 2); }
  double linkFactor(const Op& op, int index, int step) const;
  double speedOf(int rank, int64_t t) const;
  bool saves(int rank, int step) const {
    return config_.checkpoint_every > 0 && step % config_.checkpoint_every == config_.checkpoint_every - 1 &&
           (rank == 0 || !config_.saved_by_one);
  }
  const ModelFault* faultOf(int rank, int step, size_t op) const;
  size_t position(int rank, int64_t t, const StepData& data) const;
  bool isHeld(int rank, int64_t t, const StepData& data, size_t op) const;
  ProcessReport report(int rank, int64_t t);
  void addInFlight(int rank, int64_t t, const StepData& data, size_t op, ProcessReport& p) const;

  const ModelConfig config_;
  std::vector<std::vector<Op>> programs_;
  std::map<std::pair<int, int>, Comm> comms_;  // by group and index
  std::deque<StepData> steps_;
  size_t first_step_ = 0;
  std::vector<int64_t> time_;  // of each rank, after the steps so far
  std::vector<Reader> readers_;
  std::vector<int64_t> next_report_;  // by node
  std::vector<double> speed_;
  std::vector<size_t> held_;  // by rank: operations before the last one whose end is not told
  sim::Random random_;
  int64_t horizon_ = 0, stalled_ns_ = kNever, slow_ns_ = kNever;
  std::set<int> culprits_;
  std::map<int, std::pair<const Op*, int64_t>> elsewhere_;  // ranks in another operation, since when
};

}  // namespace tracesmith::bench
