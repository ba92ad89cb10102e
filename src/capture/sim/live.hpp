// A simulated job that runs: one ring for each rank, written as the probe in a real rank writes it, so that everything
// behind the rings (record, the agent, the API) works as on a real machine. Rings say that they are simulated.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "capture/ring/writer.hpp"
#include "capture/sim/job.hpp"

namespace tracesmith::sim {

struct LiveConfig {
  LiveConfig() {
    job.ranks = 8;
    job.operations = 200;
    job.faults = Faults::none();
    job.faults.clocks = false;
  }
  JobConfig job;                 ///< the whole job; its `events` do not matter
  int first_rank = 0;            ///< ranks from here on run in this process,
  int ranks_here = 0;            ///< this many; 0: all
  double step_ms = 50;           ///< what a step takes
  bool wait_for_reader = false;  ///< begin when every ring has a reader: before, it would overwrite itself
  double host_lag_ms = 0;        ///< the host's records come this much later than the GPU's, as from a lane read later
  double speed = 1;              ///< simulated seconds per second; 0: as fast as the reader of the rings allows
  uint64_t steps = 0;            ///< 0: until stopped
  uint64_t start_ns = 0;         ///< raw clock at which the job began; 0: now
  std::string folder;            ///< for the rings; empty: the user's
  std::string host;              ///< name of the node; empty: node0, node1, …
  uint32_t reader = 0;           ///< process that waits for the rings and will read them; 0: none
  uint32_t ring_records = 1u << 14;  ///< room in each ring's lane for the GPU
  bool recording = true;             ///< false: only once somebody sets the rings' control word
  bool keep_rings = false;           ///< leave the files when the job ends: somebody still reads them
};

class LiveJob {
 public:
  /// Makes the rings.
  static Result<std::unique_ptr<LiveJob>> create(const LiveConfig& config);
  /// Ends the rings.
  ~LiveJob();
  LiveJob(const LiveJob&) = delete;
  LiveJob& operator=(const LiveJob&) = delete;

  /// The job begins now, not when it was created. Before run().
  void beginNow();
  /// Runs until the steps are done or `stop` is set. After a hang it waits to be stopped.
  void run(const std::atomic<bool>& stop);

  const Job& job() const { return job_; }
  std::vector<std::string> ringPaths() const;
  uint64_t stepsDone() const { return steps_done_.load(std::memory_order_relaxed); }
  bool hangs() const { return hangs_.load(std::memory_order_relaxed); }

 private:
  enum class Part : int { compute, optimizer, end };
  struct Entry;
  struct Rank;

  explicit LiveJob(const LiveConfig& config);
  Status makeRing(int rank, const std::string& folder);
  bool here(int rank) const { return rank >= config_.first_rank && rank < config_.first_rank + config_.ranks_here; }
  Rank& local(int rank) { return *ranks_[static_cast<size_t>(rank - config_.first_rank)]; }
  void simulate(int step);
  void take(Rank& rank, const SimEvent& event, Part part);
  void launches(Rank& rank, int step, const CollectiveTime* times);
  void cutAtHang(Rank& rank, const CollectiveTime* times);
  void save(Rank& rank, double elapsed_ns);
  bool write(const std::atomic<bool>& stop);
  uint64_t commHash(Group group, int id) const;
  uint64_t raw(const Rank& rank, int64_t t) const;

  LiveConfig config_;
  Job job_;
  double scale_ = 1;  // of simulated times
  uint64_t start_ns_ = 0;
  std::vector<RankState> states_;
  std::vector<CollectiveTime> times_;
  std::vector<Random> random_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::atomic<uint64_t> steps_done_{0};
  std::atomic<bool> hangs_{false};
};

}  // namespace tracesmith::sim
