// The page through which the coordinator of a job and its ranks on one node talk: a small file in shared memory. It has
// two plans, so one is whole while the other is written, and for each rank a few words and its last measurements.
//
//   header     magic, ranks, total, ahead, whether they vote, length of the terms, checksum; visits of an agent
//   terms      the job and how it wants to be balanced (model::JobTerms), as text
//   2 plans    checksum, version, step, times, reason, and what each rank does; version % 2 says which
//   ranks      step begun, plans seen (2 words, by version % 2), out of memory at, plan followed, reports (a ring of
//              kReports)
//
// All numbers are 8 bytes, in the order of the machine, so that a word is either old or new. It is read and written by
// pread and pwrite, not by a mapping: a page that somebody cuts short gives an error and not SIGBUS, which would end
// the training. What is damaged is an error; whoever reads it goes on with what it has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "schedule/plan.hpp"
#include "schedule/speed.hpp"

namespace tracesmith::schedule {

/// Of a job; the same on all of its ranks.
struct JobShape {
  int64_t ranks = 0;
  int64_t total = 0;  ///< samples of all ranks in a step
  int64_t ahead = 0;  ///< batches that a rank may fetch before it trains on them
  bool vote = false;  ///< ranks on several nodes, each with its own page, agree by voting (schedule/follower.hpp)
};

/// That rank saw plan `version` for the first time when it began `step`.
struct Seen {
  int64_t version = 0, step = 0;
};

/// What a rank has written into the page.
struct RankWords {
  int64_t begun = 0;          ///< steps that it has begun
  Seen seen[2];               ///< by version % 2
  Seen follows;               ///< the plan in force, since that step
  int64_t out_of_memory = 0;  ///< the smallest batch for which memory did not suffice; 0: none
  int64_t reports = 0;        ///< that it has written so far
};

/// One open page. Of one thread; any number of processes may have the same page open.
class PlanPage {
 public:
  static constexpr int64_t kReports = 16;
  static constexpr int64_t kMostRanks = 65536;
  static constexpr int64_t kMostVersion = (1 << 23) - 1;  ///< a word has a version and a step
  static constexpr int64_t kMostTerms = 8 << 20;
  static constexpr const char* kPrefix = "tracesmith-plan-";  ///< of its file's name

  /// A new page. It must not be there.
  static Result<std::unique_ptr<PlanPage>> create(const std::string& path, const JobShape& shape,
                                                  const std::string& terms = "");
  static Result<std::unique_ptr<PlanPage>> open(const std::string& path);
  /// A file that somebody else put there, and that may be anything: it must be a whole page of user `owner` or of ours.
  /// Never blocks.
  static Result<std::unique_ptr<PlanPage>> openFound(const std::string& path, uint32_t owner);
  ~PlanPage();
  PlanPage(const PlanPage&) = delete;
  PlanPage& operator=(const PlanPage&) = delete;

  const std::string& path() const { return path_; }
  const JobShape& shape() const { return shape_; }
  const std::string& terms() const { return terms_; }
  /// Of what ranks have to do: equal for equal plans, and never negative.
  static int64_t digest(const Plan& plan);

  // Of the coordinator.
  /// There is one at a time; the lock is gone with the process.
  Status lockCoordinator();
  /// Replaces the older one of the two plans.
  Status publish(const Plan& plan);
  /// Reports of a rank that it wrote behind the first `from` of them; those that were overwritten are missing, and so
  /// is one that is being written.
  Result<std::vector<StepMeasure>> reports(int64_t rank, int64_t from) const;

  // Of the agent that brings plans.
  Status visit();

  /// Nobody holds a rank, and nothing was written for a while: the job has ended.
  bool abandoned() const;

  // Of everybody.
  /// Times that an agent was here.
  Result<int64_t> visits() const;
  /// The newest plan that is whole. NotFound: there is none yet.
  Result<Plan> latest() const;
  /// One of the two plans, by its place (0, 1).
  Result<Plan> slot(int64_t which) const;
  /// One of the two plans, by its version. NotFound: it has been replaced, or is not whole.
  Result<Plan> plan(int64_t version) const;
  /// Whether all ranks saw the plan early enough to follow it (schedule/follower.hpp). Final once a rank has begun its
  /// step.
  bool agreed(const Plan& plan) const;
  Result<RankWords> words(int64_t rank) const;

  // Of the rank.
  /// Until this object goes, or its process: somebody uses the page. Busy: the job has this rank already.
  Status hold(int64_t rank);
  Status begin(int64_t rank, int64_t step);
  Status see(int64_t rank, const Seen& seen);
  Status follow(int64_t rank, const Seen& plan);
  Status outOfMemory(int64_t rank, int64_t batch);
  /// `count`: how many this rank has written before.
  Status report(int64_t rank, int64_t count, const StepMeasure& measure);

 private:
  PlanPage(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  static Result<std::unique_ptr<PlanPage>> opened(const std::string& path, int fd, bool whole);
  int64_t slotBytes() const;
  int64_t slotAt(int64_t which) const;
  int64_t rankAt(int64_t rank) const;
  Status write(int64_t at, const void* data, size_t size);
  Status read(int64_t at, void* data, size_t size) const;

  const std::string path_;
  const int fd_;
  JobShape shape_;
  std::string terms_;
};

}  // namespace tracesmith::schedule
