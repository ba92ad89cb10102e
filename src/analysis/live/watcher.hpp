// Watches a job from the reports of its nodes: who stands still, who got slow. No clock and no network of its own: the
// caller gives the time with everything, so that hours can be played through in a moment.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/live/hang.hpp"
#include "analysis/live/slow.hpp"
#include "analysis/live/totals.hpp"
#include "analysis/live/versions.hpp"

namespace tracesmith::analysis::live {

/// Not thread safe.
class Watcher {
 public:
  /// A node that says nothing for longer than `silent_ns` is told of, once until it speaks again.
  explicit Watcher(int64_t silent_ns = 30'000'000'000) : silent_ns_(silent_ns) {}
  /// A report and when it came, ns of one clock that does not jump.
  void take(const NodeReport& report, int64_t now_ns);
  /// What is installed on a node.
  void describe(const model::NodeDescription& node) { versions_.describe(node); }
  /// A node that left the cluster is not missed.
  void forget(const std::string& node) {
    heard_.erase(node);
    versions_.forget(node);
    totals_.forget(node);
  }
  /// What is new. Call it twice a second or so.
  std::vector<Alert> look(int64_t now_ns);
  const HangVerdict& verdict() const { return verdict_; }
  const SlowDetector& slow() const { return slow_; }
  const Totals& totals() const { return totals_; }

 private:
  struct Heard {
    int64_t at_ns = 0;
    bool missed = false;
  };
  const int64_t silent_ns_;
  std::map<std::string, Heard> heard_;  // by node
  HangDetector hang_;
  SlowDetector slow_;
  VersionWatch versions_;
  Totals totals_;
  HangVerdict verdict_;
  bool told_ = false;  // that a rank at work holds up the job
};

}  // namespace tracesmith::analysis::live
