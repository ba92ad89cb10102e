// A simulated data-parallel training job: what every rank's host thread and GPU does, step by step, from a seed.
// Ranks are coupled as in real training: a collective ends nearly at once on all its ranks, and not before the last
// of them has arrived. One rank is slow from the middle on, one node's links are slow, and each node has a clock of its
// own.
//
// With pipeline or tensor groups (JobConfig::pipeline, tensor) the ranks are laid out as stages × data × tensor: every
// microbatch is received from the stage before, computed, reduced over the tensor group and sent on; all forward passes
// come first, then all backward passes (or both in turn: JobConfig::in_turn), then the gradients over the data-parallel
// group. With several chunks (JobConfig::chunks) every stage has that many parts of the model, and a microbatch goes
// round all stages once for each: the interleaved schedule of Megatron.
//
// With sharded parameters (JobConfig::sharded) every layer is gathered before it is used, forward and backward, while
// the layer before computes; in the backward pass its gradients are reduced and scattered. Gathering and scattering use
// one communicator and two streams.
//
// Without them a step is simulated in three parts, because ranks meet twice in it:
//   1. forward and backward on every rank: says when it is ready for each gradient collective;
//   2. the collectives, over all ranks; then the optimizer on every rank, up to the final all-gather;
//   3. the final all-gather, over all ranks.
// Simulating without recording is cheap, so a window of steps is first simulated for all ranks to get the times of the
// collectives, then again rank by rank to get the rows: memory does not depend on the length of the job.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith::sim {

/// What goes wrong in a job.
struct Faults {
  static constexpr int kBySeed = -2, kNone = -1;
  int slow_rank = kBySeed;                         ///< its kernels take `slowdown` times as long
  double slowdown = 1.3;                           //
  std::vector<std::pair<int, double>> also_slow;   ///< more ranks, each with its factor
  std::vector<std::pair<int, double>> other_gpus;  ///< ranks on a GPU of a slower model, each with its factor
  int heavy_stage = kNone;                         ///< its layers are larger and take `heaviness` times as long
  double heaviness = 1.3;                          //
  bool heavy_forward = false;                      ///< only in the forward pass
  int slow_node = kBySeed;                         ///< its links take `link_slowdown` times as long
  double link_slowdown = 3;                        //
  int late_rank = kNone;                           ///< its data loader is `late_ms` late in every step
  double late_ms = 5;                              //
  int checkpoint_every = 0;  ///< steps; rank 0 saves one for `checkpoint_ms` while all wait; 0: never
  double checkpoint_ms = 0;  //
  int from_step = kBySeed;   ///< the slow rank and the late one are well before; by seed: half of the steps
  double jitter = 0;         ///< kernels of all ranks take up to this share longer, at random
  int hang_rank = kNone;     ///< does not come to the middle one of the collectives of `hang_step`; live jobs only
  int hang_step = 0;         //
  bool clocks = true;        ///< nodes have clocks of their own: offset and drift
  bool network = false;      ///< the slow node's links to other nodes are slow too

  /// A healthy job.
  static Faults none() {
    Faults f;
    f.slow_rank = f.slow_node = kNone;
    f.from_step = 0;
    return f;
  }
};

/// Adds one fault, as users write it: slow-gpu=RANK[:FACTOR], other-gpu=RANK[:FACTOR], heavy-stage=STAGE[:FACTOR],
/// slow-link=NODE[:FACTOR], late=RANK[:MS], jitter=PERCENT, hang=RANK[:STEP], checkpoint=STEPS[:MS], from=STEP, none.
/// slow-gpu and other-gpu may be given more than once.
Status addFault(Faults& faults, const std::string& text);

struct JobConfig {
  uint64_t events = 1'000'000;  ///< rows of `events` to make, about 2.7 per kernel
  int ranks = 32;
  int gpus_per_node = 8;
  uint64_t seed = 1;
  int operations = 0;    ///< kernels, copies and collectives of a rank in a step; 0: as many as suit the trace
  int pipeline = 1;      ///< stages; they and `tensor` must divide the ranks
  int tensor = 0;        ///< ranks of a tensor-parallel group; 0: those of a node share some collectives instead
  int microbatches = 4;  ///< of a pipeline
  /// Stages that exchange nothing but microbatches: no gradients, no collective of all ranks. One rank, or one tensor
  /// group, a stage.
  bool stages_only = false;
  bool in_turn = false;  ///< 1F1B: a stage runs backward passes between its forward passes
  int chunks = 1;        ///< of the model on every stage, run in turn; the stages must divide the microbatches
  bool sharded = false;  ///< parameters, layer by layer; without pipeline and tensor groups
  Faults faults = {};

  bool laidOut() const { return pipeline > 1 || tensor > 0; }
};
/// Whether the groups fit the ranks.
Status checkLayout(const JobConfig& config);

/// Small, fast, and the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull) {
    next();
    next();
  }
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  /// Around 1.0, like a normal distribution of 4 %.
  double noise() {
    uint64_t r = next();
    int v = static_cast<int>(r & 1023) + static_cast<int>(r >> 10 & 1023) + static_cast<int>(r >> 20 & 1023) +
            static_cast<int>(r >> 30 & 1023) - 2046;
    return 1.0 + v * (0.04 / 590.0);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

struct KernelModel {
  std::string name;
  int64_t base_ns;
  trace::LaunchShape shape;
};

/// Of all collective kernels.
constexpr trace::LaunchShape kCollectiveShape{.grid_x = 24,
                                              .grid_y = 1,
                                              .grid_z = 1,
                                              .block_x = 544,
                                              .block_y = 1,
                                              .block_z = 1,
                                              .registers = 96,
                                              .shared_static = 0,
                                              .shared_dynamic = 83968};

enum class OpKind : uint8_t { kernel, memcpy, memset, collective };

/// One operation of the step all ranks run.
struct Op {
  OpKind kind;
  bool has_cpu_op;
  uint32_t kernel;      // index in kernels
  uint32_t cpu_op;      // index in cpuOps
  int64_t bytes;        // of a copy or collective
  uint32_t collective;  // index in collectives
};

/// Who takes part: all ranks; those of a node, or of a tensor-parallel group; of a data-parallel one; of a pipeline.
enum class Group : uint8_t { world, node, data, pipe };
constexpr int kGroups = 4;

struct CollectiveModel {
  const char* op;
  Group group;
  int64_t bytes;
  uint32_t kernel_name;                               // index in collectiveKernels
  int32_t segment = -1;                               // or layer it belongs to, of a job that has them
  int64_t index = 0;                                  // among those of its group in a step
  int64_t function_index = 0, function_per_step = 0;  // the same, of those with its function

  bool sends() const { return op[0] == 's'; }
  bool receives() const { return pair() && !sends(); }
  bool pair() const { return group == Group::pipe; }
};
constexpr uint32_t kSendRecvKernel = 3;

/// A rank's place in one of its groups.
struct GroupPlace {
  int id, rank, size;
};

/// Where a rank stands between steps. Times are ns of the reference clock since the job began.
struct RankState {
  int64_t host = 0, compute = 0, copy = 0;
  int64_t comm[6] = {};  // by stream
  int64_t correlation = 1;
};

/// Start and end of one collective on one rank.
struct CollectiveTime {
  int64_t ready = 0, start = 0, end = 0;
  int64_t enqueue = 0, called = 0;  // the call that launches it: start and end
  int64_t correlation = 0;
};

/// One row on its way out, in reference time.
struct SimEvent {
  trace::EventType type;
  uint32_t name;  // index in the list the type says: kernels, cpuOps, collectiveKernels, apiNames; of a copy, a Copy
  int64_t start, end;
  int64_t correlation;
  int64_t bytes;  // or kNull
  bool backward_thread;
  bool collective;
  int stream = 0;  // of a collective
};

enum Api : uint32_t { kLaunchKernel, kMemcpyAsync, kMemsetAsync, kDeviceSynchronize, kApiCount };
extern const char* const kApiNames[kApiCount];
enum Copy : uint32_t { kToDevice, kToHost, kCopyCount };
extern const char* const kCopyNames[kCopyCount];
enum Range : uint32_t { kForward, kBackward, kOptimizer, kRangeCount };
extern const char* const kRangeNames[kRangeCount];

/// How a node's clock differs: reference = raw + offset + drift × (raw − raw_start).
struct ClockTruth {
  int64_t raw_start, offset;
  double drift_ppm;
  int64_t toRaw(int64_t reference_ns) const {
    return raw_start + reference_ns -
           static_cast<int64_t>(static_cast<double>(reference_ns) * (drift_ppm * 1e-6 / (1 + drift_ppm * 1e-6)));
  }
};

/// Takes the rows of a rank.
using Sink = std::function<void(const SimEvent&)>;
/// A part of a step, on one rank. `random`: of this rank and step.
using RankPart =
    std::function<void(int rank, RankState& state, CollectiveTime* times, Random& random, const Sink& sink)>;

class Job {
 public:
  explicit Job(const JobConfig& config);

  const JobConfig& config() const { return config_; }
  int nodes() const { return (config_.ranks + config_.gpus_per_node - 1) / config_.gpus_per_node; }
  int nodeOf(int rank) const { return rank / config_.gpus_per_node; }
  int steps() const { return steps_; }
  /// Events of one rank in one step, its ProfilerStep range included: always the same number.
  uint64_t rowsPerStep() const { return rows_per_step_; }
  int slowRank() const { return config_.faults.slow_rank; }  ///< or Faults::kNone
  /// How many times as long kernels take on the model of its GPU; 1: the usual model.
  double modelFactor(int rank) const {
    for (const auto& [other, factor] : config_.faults.other_gpus)
      if (other == rank) return factor;
    return 1;
  }
  int slowFromStep() const { return config_.faults.from_step; }
  int slowNode() const { return config_.faults.slow_node; }  ///< or Faults::kNone
  const ClockTruth& clock(int node) const { return clocks_[static_cast<size_t>(node)]; }
  static constexpr int64_t kStartNs = 1'763'164'800'000'000'000;  // reference clock at time 0

  const std::vector<KernelModel>& kernels() const { return kernels_; }
  const std::vector<std::string>& cpuOps() const { return cpu_ops_; }
  const std::vector<std::string>& collectiveKernels() const { return collective_kernels_; }
  const std::vector<CollectiveModel>& collectives() const { return collectives_; }
  const std::vector<Op>& ops() const { return ops_; }

  GroupPlace place(int rank, Group group) const;
  int groupCount(Group group) const;
  int member(Group group, int id, int place) const;  ///< its rank
  /// How many operations a group has in a step.
  int64_t perStep(Group group) const { return per_step_[static_cast<size_t>(group)]; }
  /// Each communicator counts its own operations, and each pair what one sends to the other.
  int64_t numberOf(int rank, const CollectiveModel& model, int64_t step) const {
    return model.pair() ? pairNumber(rank, model, step) : step * perStep(model.group) + model.index;
  }
  /// As NCCL counts: each function of a communicator by itself. Sends and receives have none.
  static int64_t ncclNumberOf(const CollectiveModel& model, int64_t step) {
    return step * model.function_per_step + model.function_index;
  }
  bool takesPart(int rank, const CollectiveModel& model) const;
  /// Of a send or receive: the other stage.
  int peerOf(int rank, const CollectiveModel& model) const;
  /// Of a receive: the segment in which the other stage sends it. Another one where the microbatch goes round.
  int sentIn(int rank, int segment) const;
  int streamOf(const CollectiveModel& model) const {
    // Sends and receives of both directions must not wait for each other when both go on at the same time.
    if (model.pair() && config_.in_turn) return 1 + 2 * model.sends() + backward(model.segment);
    if (model.group == Group::world) return model.segment >= 0 && model.op[0] == 'r' ? 1 : 0;  // layers: two streams
    return model.segment < 0 ? 0 : model.pair() ? 1 : config_.in_turn ? 5 : 2;
  }
  /// What runs one after the other: a stream, and all that a communicator does.
  int queueOf(const CollectiveModel& model) const { return model.group == Group::world ? 0 : streamOf(model); }
  int stageOf(int rank) const { return rank / (config_.ranks / config_.pipeline); }
  /// Whether the rank saves a checkpoint in this step, before its last collective.
  bool saves(int rank, int step) const {
    const Faults& f = config_.faults;
    return rank == 0 && f.checkpoint_every > 0 && step % f.checkpoint_every == f.checkpoint_every - 1;
  }
  void setCheckpointMs(double ms) { config_.faults.checkpoint_ms = ms; }
  /// A microbatch in one pass through one chunk: forward those of the first chunk first, backward those of the last.
  int segments() const { return config_.laidOut() ? 2 * config_.microbatches * config_.chunks : 0; }
  bool backward(int segment) const { return 2 * segment >= segments(); }
  /// The segments of a stage in the order in which it runs them.
  std::vector<int> segmentOrder(int stage) const;
  /// Of sharded parameters: the layers forward, then backward.
  int phases() const { return config_.sharded ? 2 * layers_ : 0; }

  /// Runs a part for the ranks from `first` up to `last`, in any order. `which`: 0 up to the gradients, 1 the
  /// optimizer, 2 the end.
  using Run = std::function<void(int which, int first, int last, const RankPart& part)>;
  /// A step of all ranks, in parts.
  void simulateStep(int step, std::vector<RankState>& states, std::vector<CollectiveTime>& times, const Run& run) const;
  /// The same of one rank, whose collectives are settled.
  void replayStep(int rank, int step, RankState& state, const CollectiveTime* settled, const Sink& sink) const;

  /// Forward and backward: fills ready times. `sink(SimEvent)` takes the rows.
  void computePart(int rank, int step, RankState& state, CollectiveTime* times, Random& random, const Sink& sink) const;
  /// The collectives of the first part, then the optimizer, then waiting for the last collective to be ready.
  void optimizerPart(int rank, int step, RankState& state, CollectiveTime* times, Random& random,
                     const Sink& sink) const;
  /// The final collective and the end of the step.
  void endPart(int rank, int step, RankState& state, const CollectiveTime* times, const Sink& sink) const;
  Random stepRandom(int rank, int step) const {
    return Random(config_.seed ^ static_cast<uint64_t>(rank) << 40 ^ static_cast<uint64_t>(step) << 8);
  }

  /// The parts of a segment: the receive is launched; what it brought is computed and reduced; it is sent on.
  void receivePart(int segment, int rank, int step, RankState& state, CollectiveTime* times, Random& random,
                   const Sink& sink) const;
  void segmentPart(int segment, int rank, int step, RankState& state, CollectiveTime* times, Random& random,
                   const Sink& sink) const;
  void sendPart(int segment, int rank, RankState& state, CollectiveTime* times, Random& random, const Sink& sink) const;

  /// The parts of a layer: the next one is gathered; what was gathered before is used, its gradients are scattered.
  void gatherPart(int phase, int rank, int step, RankState& state, CollectiveTime* times, Random& random,
                  const Sink& sink) const;
  void layerPart(int phase, int rank, int step, RankState& state, CollectiveTime* times, Random& random,
                 const Sink& sink) const;

  /// Settles start and end of collectives [first, last) of one step on all ranks from their ready times.
  /// times[rank × collectives().size() + k]
  void settle(int step, size_t first, size_t last, std::vector<RankState>& states,
              std::vector<CollectiveTime>& times) const;

 private:
  double slowdownOf(int rank, int step) const;
  void layOut(Random& random);
  /// Which of the chunks of all stages a segment of this stage is, in the order of its pass.
  int turnOf(int stage, int segment) const;
  int64_t pairNumber(int rank, const CollectiveModel& model, int64_t step) const;
  void simulateSegments(int step, std::vector<RankState>& states, std::vector<CollectiveTime>& times,
                        const Run& run) const;
  void shard(Random& random, int operations);
  void simulateSegment(int segment, int stage, int step, std::vector<RankState>& states,
                       std::vector<CollectiveTime>& times, const Run& run) const;
  void beLate(int rank, int step, RankState& state) const;
  void settleGroup(int step, size_t k, int id, std::vector<RankState>& states,
                   std::vector<CollectiveTime>& times) const;
  void settleTransfers(int step, int segment, int stage, std::vector<RankState>& states,
                       std::vector<CollectiveTime>& times) const;
  double bandwidth(int first, int last, bool whole_job) const;
  size_t segmentModel(int segment, int which) const { return static_cast<size_t>(3 * segment + which); }
  std::pair<size_t, size_t> segmentOps(int segment) const;
  void launchComm(size_t model, RankState& state, CollectiveTime* times, Random& random, const Sink& sink) const;
  void runOps(size_t first, size_t last, int rank, int step, bool backward_from, RankState& state,
              CollectiveTime* times, Random& random, const Sink& sink) const;

  JobConfig config_;
  int steps_ = 0;
  uint64_t rows_per_step_ = 0;
  std::vector<KernelModel> kernels_;
  std::vector<uint32_t> zipf_;  // 65536 draws
  std::vector<std::string> cpu_ops_, collective_kernels_;
  std::vector<CollectiveModel> collectives_;
  std::vector<Op> ops_;
  size_t backward_op_ = 0, optimizer_op_ = 0;  // where the parts begin in ops_
  int layers_ = 0;                             // of sharded parameters
  std::vector<size_t> gathers_, scatters_;     // of each phase in collectives_; forward nothing is scattered
  std::vector<ClockTruth> clocks_;
  int64_t per_step_[kGroups] = {};
};

}  // namespace tracesmith::sim
