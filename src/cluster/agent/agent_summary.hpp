// Of sessions that keep only a summary: takes the rows of the node's processes instead of the spool, and gives the
// spool their summary. Rows that are in no summary yet are in a file beside the spool, so that an agent may be killed:
//
//   spool/pending-<number>    a trace; every checkpoint says which of them, and how much of it, it goes with
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "analysis/summary/keeper.hpp"
#include "base/file.hpp"
#include "cluster/agent/spool.hpp"

namespace tracesmith::cluster {

/// Of one segment. Called by the recorder's thread only.
class AgentSummary {
 public:
  /// When a segment has begun. `state`: of the last checkpoint, to go on where it stopped; empty: anew.
  static Result<std::unique_ptr<AgentSummary>> begin(Spool& spool, const std::string& state);
  /// There is no summary now: nobody needs what was pending.
  static void forget(const Spool& spool, const std::string& except = {});

  trace::Writer& writer() { return keeper_->writer(); }
  /// Whether rows also go into the spool as they are, because a session keeps everything.
  Status alsoWhole(bool whole);
  /// Before a checkpoint, when all rows were flushed: takes over the summary of what is complete, and begins with the
  /// next one if it is time, or with `hurry`. With `all`: one of everything, after which this is finished().
  Status keep(int64_t raw_ns, bool hurry, bool all);
  /// A thread is at a summary.
  bool working() const { return keeper_->started() && !keeper_->done(); }
  bool finished() const { return finished_; }
  /// Raw clock: everything before is in the spool.
  int64_t coveredUntil() const { return finished_ ? all_raw_ : keeper_->coveredUntil(); }
  /// For the checkpoint: makes safe what is pending.
  Result<std::string> save();
  /// The checkpoint is safe.
  void saved();

 private:
  explicit AgentSummary(Spool& spool) : spool_(spool) {}
  Status restore(const std::string& state);
  Status passOn(bool all);
  Status commit(std::vector<std::string>& blocks, uint32_t stream);

  Spool& spool_;
  std::mutex mutex_;                         // guards the next two, which the thread of a summary writes too
  std::vector<std::string> summary_blocks_;  // committed when the summary is taken over
  std::vector<std::string> whole_blocks_;
  std::unique_ptr<trace::Writer> out_;
  std::unique_ptr<analysis::SummaryKeeper> keeper_;
  File pending_;
  uint64_t number_ = 0, size_ = 0;  // of pending_
  bool fresh_ = false;              // no checkpoint was made since it began: the one before is still needed
  bool whole_ = false, all_ = false, finished_ = false;
  int64_t all_raw_ = 0;  // when the summary of everything was begun
};

}  // namespace tracesmith::cluster
