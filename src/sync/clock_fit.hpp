// From exchanged timestamps to the relation of two clocks: offset, drift, and a bound that holds.
//
// A message sent at t1 of our clock and received at t2 of the reference says: offset ≤ t2 − t1, for it took some time.
// The answer, sent at t3 and received at t4, says: offset ≥ t3 − t4. Over a minute the offset is a straight line
// a + b·t that must pass below all upper limits and above all lower ones. The fit is the line that keeps the largest
// distance from both: only the fastest messages of each direction touch it, so jitter and stalls do not matter.
// The bound at a time is the farthest any line that fits can be from ours.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "trace/clock_model.hpp"

namespace tracesmith::sync {

/// Four timestamps of one exchange, ns: t1, t4 of our clock, t2, t3 of the reference.
struct Exchange {
  int64_t t1 = 0, t2 = 0, t3 = 0, t4 = 0;
  int64_t delay() const { return (t4 - t1) - (t3 - t2); }
  /// Estimate of reference − ours from this exchange alone; it is wrong by at most delay() / 2.
  int64_t offset() const { return ((t2 - t1) + (t3 - t4)) / 2; }
};

using trace::ClockModel;

/// Keeps the useful exchanges of the last minutes. Not thread safe.
class ClockFit {
 public:
  explicit ClockFit(int64_t window_ns = 120'000'000'000) : window_ns_(window_ns) {}

  /// Adds a burst of exchanges. Returns false if it contradicts what came before: a clock was set, or its rate changed.
  /// What came before is forgotten then.
  bool add(std::span<const Exchange> burst);
  bool add(const Exchange& e) { return add(std::span(&e, 1)); }
  /// The relation at this time of our clock. Its bound grows with the time since the last exchange.
  ClockModel at(int64_t now_ns) const;

  size_t exchanges() const { return points_.size(); }
  int64_t bestDelay() const { return best_delay_; }  ///< of the exchanges kept; 0: none
  uint64_t faults() const { return faults_; }        ///< how often exchanges contradicted each other

 private:
  struct Point {
    int64_t t;             // our clock, the middle of the exchange
    int64_t lower, upper;  // of the offset at that time
  };
  struct Line {
    double low = 0, high = 0;  // smallest and largest a, relative to origin, for one b
    double margin() const { return (high - low) / 2; }
  };
  /// A limit of the line, relative to origin.
  struct Corner {
    double t, value;
  };
  Line limits(double b) const;
  void findCorners();
  /// The b with the largest margin; its margin.
  double best(double& margin) const;
  void solve();
  void thin();

  int64_t window_ns_;
  std::deque<Point> points_;
  std::vector<Corner> lower_, upper_;         // of all limits, those a straight line can touch
  int64_t origin_t_ = 0, origin_offset_ = 0;  // what a and t are relative to: keeps doubles exact
  double b_ = 0, b_low_ = 0, b_high_ = 0;     // drift, ns per ns, and the range that fits
  int64_t best_delay_ = 0;
  uint64_t faults_ = 0;
};

}  // namespace tracesmith::sync
