// Adaptive mode: a change is given at once, silence only now and then.
#pragma once

#include <cmath>
#include <vector>

#include "hardware/sampler.hpp"

namespace tracesmith::hardware {

/// Remembers what one source gave last at one rate.
class Quiet {
 public:
  /// Takes out values that did not change by more than their metric's step since they were last given, unless that was
  /// `silence_ns` ago. Before a change the last value left out is given too: the step is seen where it was.
  /// True if anything changed.
  bool leaveOut(std::vector<Sample>& samples, int64_t silence_ns) {
    bool changed = false;
    if (last_.size() < samples.size()) last_.resize(samples.size());
    std::vector<Sample> kept;
    for (size_t i = 0; i < samples.size(); ++i) {
      const Sample& s = samples[i];
      Last& l = last_[i];
      const bool known = l.metric == s.metric && l.part == s.part;
      const bool differs = s.metric->kind == MetricKind::event || !known ||
                           std::abs(s.value - l.given) > s.metric->step || (s.value != s.value) != (l.given != l.given);
      if (!differs && s.ts_ns - l.given_ns < silence_ns) {
        l.left_out = s.value;
        l.left_out_ns = s.ts_ns;
        continue;
      }
      if (differs && known && l.left_out_ns > l.given_ns)
        kept.push_back({l.left_out_ns, s.device, s.metric, s.part, l.left_out});
      changed |= differs;
      kept.push_back(s);
      if (!known) l.part = s.part;
      l.metric = s.metric;
      l.given = s.value;
      l.given_ns = s.ts_ns;
      l.left_out_ns = 0;
    }
    samples.swap(kept);
    still_ = changed ? 0 : still_ + 1;
    return changed;
  }
  /// True when nothing has changed for a while.
  bool still() const { return still_ >= 10; }

 private:
  struct Last {
    const MetricInfo* metric = nullptr;
    std::string part;
    double given = 0, left_out = 0;
    int64_t given_ns = 0, left_out_ns = 0;
  };
  std::vector<Last> last_;  // by position: a source gives the same values in the same order
  int still_ = 0;
};

}  // namespace tracesmith::hardware
