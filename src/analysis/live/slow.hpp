// Who got slow: steps and transfers of a job against their own past.
//
// Ranks of a job step together, so a step takes as long on the rank that is slow as on those that wait for it. What
// differs is the time in NCCL's kernels: the slow one has less of it than the median rank, by what it costs the others.
//
// A transfer of a collective is slow for its communicator; one of a send and its receive for the link of the two ranks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/live/change.hpp"
#include "analysis/live/report.hpp"

namespace tracesmith::analysis::live {

struct SlowOptions {
  int64_t bucket_ns = 5'000'000'000;      ///< steps and transfers are averaged over so long
  double least_rank = 0.02;               ///< of a step: what a rank must come later than before
  double least_job = 0.05;                ///< of a step: what all must take longer
  int64_t job_wait_ns = 180'000'000'000;  ///< how long a rank or link may explain that, before the job is told
  double least_link = 0.035;              ///< of a transfer,
  double least_latency = 0.25;            ///< of one of a small message
  int64_t small_bytes = 65536;            ///< that is smaller than this
  double slow_step = 3;                   ///< times the usual: a step is slow,
  int64_t slow_step_ns = 2'000'000'000;   ///< if it is longer by this, too
};

/// Not thread safe.
class SlowDetector {
 public:
  explicit SlowDetector(SlowOptions options = {}) : options_(options) {}

  /// Times are ns of one clock, the caller's.
  void take(const NodeReport& report, int64_t now_ns);
  std::vector<Alert> look(int64_t now_ns);

  using RankKey = std::pair<std::string, int64_t>;  ///< node, process
  /// What came together in the steps of a rank so far, as far as all ranks were recorded.
  struct RankCost {
    double wait_s = 0;  ///< in NCCL's kernels, longer than the rank that everybody waited for
    double late_s = 0;  ///< that it came later than the median rank: what it cost the others
    int64_t seen_ns = 0;
  };
  const std::map<RankKey, RankCost>& costs() const { return costs_; }

 private:
  struct RankSum {
    double duration_ns = 0, comm_ns = 0;
    bool recorded = true;  // comm_ns is known
  };
  struct Step {
    std::map<RankKey, RankSum> ranks;
    int64_t first_ns = 0;  // when it was first heard of
  };
  struct Rank {
    int32_t rank = -1, device = -1;
    int64_t seen_ns = 0;
    std::vector<double> excess;  // of the steps in this bucket
    double told_ns = 0;          // the longest delay in a single step that was told
    ChangeDetector change;
    std::string role = {};
  };
  struct Job {
    std::map<int64_t, Step> steps;  // not complete yet
    std::map<RankKey, Rank> ranks;
    int64_t bucket_start_ns = 0, done = -1;  // done: the last step that was summed up
    std::vector<double> durations;           // of the bucket
    double usual_ns = 0;                     // median step of the bucket before
    ChangeDetector change;
    int64_t quiet_until_ns = 0;
    std::optional<Alert> slower;  // all steps take longer: told unless a rank or a link explains it
  };
  struct LinkKey {
    uint64_t comm;
    std::string op;
    int64_t bytes;
    int32_t from = -1, to = -1;  // of a send and its receive: ranks in the communicator
    auto operator<=>(const LinkKey&) const = default;
    bool pair() const { return from >= 0; }
  };
  struct Link {
    struct End {
      int64_t shortest_ns = 0;  // in this bucket; 0: nothing was told
      int32_t rank = -1;
      std::string node;
    };
    std::string name;
    int32_t size = -1;
    int64_t bucket_start_ns = 0;
    End ends[2];  // of a pair: who sends, who receives; of a collective all ranks tell the first
    ChangeDetector change;
  };

  uint64_t rootOf(uint64_t comm);
  uint64_t jobOf(const ProcessReport& process);
  void takeSteps(const NodeReport& report, const ProcessReport& process, int64_t now_ns);
  void takeTransfers(const NodeReport& report, const ProcessReport& process, int64_t now_ns);
  void finishStep(Job& job, int64_t number, const Step& step, int64_t now_ns, std::vector<Alert>& alerts);
  void finishBucket(Job& job, int64_t now_ns, std::vector<Alert>& alerts);
  void lookAtLinks(int64_t now_ns, std::vector<Alert>& alerts);
  static int64_t transferOf(const LinkKey& key, const Link& link);
  static std::string linkText(const LinkKey& key, const Link& link);
  std::string rankText(const RankKey& key, const Rank& rank) const;
  std::string gpuText(const RankKey& key, const Rank& rank) const;

  const SlowOptions options_;
  std::map<uint64_t, uint64_t> parents_;  // communicators that share a process belong to one job
  // By the communicator that names it and by role: each role has steps of its own.
  std::map<std::pair<uint64_t, std::string>, Job> jobs_;
  std::map<LinkKey, Link> links_;
  std::map<RankKey, RankCost> costs_;
  std::map<std::string, std::vector<GpuState>> gpus_;  // by node
};

}  // namespace tracesmith::analysis::live
