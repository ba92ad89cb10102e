// Who stands still, and who is to blame: from the operations in flight on all ranks.
//
// A rank waits when an operation of a communicator is the oldest on its stream, does not end, and nothing else ends on
// its GPU either. It waits for the ranks that have not launched that operation, or queue it behind another one. Whoever
// is waited for and waits for nobody is to blame; where all wait in a circle, it is who does something else than most.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "analysis/live/report.hpp"

namespace tracesmith::analysis::live {

struct HangOptions {
  int64_t least_ns = 2'000'000'000;     ///< a shorter wait is never a hang,
  double waits = 3;                     ///< nor one shorter than this many of the longest waits the job had
  int64_t most_ns = 60'000'000'000;     ///< a longer one always is
  int64_t mismatch_ns = 1'000'000'000;  ///< where ranks do not agree about the size: that cannot end
  int64_t first_ns = 10'000'000'000;    ///< while a communicator connects: none of its operations has ended yet
  int64_t host_ns =
      30'000'000'000;  ///< while the missing rank's process works hard on its CPU: it may save a checkpoint
  /// Where only launches are recorded: ranks may launch so far ahead of each other; or this many of the longest steps.
  int64_t ahead_ns = 10'000'000'000;
  double ahead_steps = 3;
  int64_t silent_ns = 3'500'000'000;       ///< a node without a report for so long is silent
  int64_t half_life_ns = 600'000'000'000;  ///< how fast long waits are forgotten
};

/// Not thread safe.
class HangDetector {
 public:
  explicit HangDetector(HangOptions options = {}) : options_(options) {}

  /// The newest report of a node and when it came. All times are ns of one clock, the caller's.
  void take(const NodeReport& report, int64_t now_ns);
  HangVerdict look(int64_t now_ns);
  /// Waits shorter than this are no hang, now, for a job whose communicators have worked.
  int64_t thresholdNs() const;

 private:
  struct Node {
    NodeReport report;
    int64_t at_ns = 0;
  };
  const HangOptions options_;
  std::map<std::string, Node> nodes_;
  void learn(double wait_ns);
  void lookForStandstill(int64_t now_ns, HangVerdict& verdict);

  double longest_wait_ns_ = 0;                                           // of the job so far; fades
  double longest_step_ns_ = 0;                                           // fades, too
  double longest_pause_ns_ = 0;                                          // in which no rank launched anything; fades
  int64_t pause_ns_ = 0;                                                 // the one at the last look
  int64_t faded_ns_ = 0;                                                 // when
  int64_t waits_ns_ = 0;                                                 // the longest wait at the last look
  int64_t explained_ns_ = 0;                                             // until then waits are for a checkpoint
  std::map<std::pair<uint64_t, std::string>, std::set<int64_t>> sizes_;  // that ended, by communicator and operation
};

}  // namespace tracesmith::analysis::live
