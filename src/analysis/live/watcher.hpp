// Watches a job from the reports of its nodes: who stands still, who got slow. No clock and no network of its own: the
// caller gives the time with everything, so that hours can be played through in a moment.
#pragma once

#include <vector>

#include "analysis/live/hang.hpp"
#include "analysis/live/slow.hpp"

namespace tracesmith::analysis::live {

/// Not thread safe.
class Watcher {
 public:
  /// A report and when it came, ns of one clock that does not jump.
  void take(const NodeReport& report, int64_t now_ns);
  /// What is new. Call it twice a second or so.
  std::vector<Alert> look(int64_t now_ns);
  const HangVerdict& verdict() const { return verdict_; }

 private:
  HangDetector hang_;
  SlowDetector slow_;
  HangVerdict verdict_;
  bool told_ = false;  // that a rank at work holds up the job
};

}  // namespace tracesmith::analysis::live
