// How fast a rank is, from the steps that it measured itself: how long a step takes it, by the number of samples.
// One object for each rank; one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::schedule {

/// One step of one rank.
struct StepMeasure {
  int64_t step = 0;
  int64_t samples = 0;  ///< that the rank trained on
  double busy_s = 0;    ///< the rank's own work: what it waited for others is not in it
  double wall_s = 0;    ///< the whole step, with the waiting
};

/// A step of n samples takes fixed_s + per_sample_s * n. Micro-batches pay fixed_s each.
struct RankCost {
  double fixed_s = 0;
  double per_sample_s = 0;

  double time(int64_t samples, int64_t micro_batches = 1) const {
    return fixed_s * static_cast<double>(micro_batches) + per_sample_s * static_cast<double>(samples);
  }
};

/// Averages the steps of a rank. Times at the same number of samples are averaged together (a median first, then an
/// EWMA), and the cost is fitted through the averages, so a change of the batch is no change of the speed. A single
/// step that is far off counts for nothing; kToChange of them in a row, all on one side, are a change of the speed.
class SpeedTracker {
 public:
  /// What is no time of a step is refused, and counted: NaN, zero, negative, longer than the step itself.
  Status add(const StepMeasure& measure);

  bool known() const { return !averages_.empty(); }
  /// Steps since the rank began, or since its speed last changed.
  int64_t steps() const { return steps_; }
  /// That it trained on last.
  int64_t samples() const { return averages_.empty() ? 0 : averages_.back().samples; }
  /// Steps with this number of samples.
  int64_t stepsAtBatch() const { return averages_.empty() ? 0 : averages_.back().count; }
  RankCost cost() const { return cost_; }
  /// What to plan with if the rank has this share of the samples. A rank that changes to and fro faster than plans
  /// could follow has one cost: that of its slow times or of its fast ones, whichever makes steps shorter on average.
  RankCost costToPlan(double share) const;
  bool unsteady() const;
  /// Samples per second in the batch that it has now; 0: not known.
  double speed() const;
  /// Where it changed by itself: a device that throttles, a noisy neighbour. 0 changes: last_change is -1.
  int64_t changes() const { return changes_; }
  int64_t lastChange() const { return last_change_; }
  /// How many times longer its steps take than they usually did; 1: as long as usual.
  double slowdown() const { return slowdown_; }
  /// The step from which it has been much slower than usual; nothing: it is not.
  std::optional<int64_t> slowSince() const { return slow_since_; }
  int64_t refused() const { return refused_; }

  static constexpr int kToChange = 3;
  static constexpr double kFarOff = 0.15;        ///< of the average
  static constexpr double kSameBatch = 0.1;      ///< part by which batches may differ that take about the same time
  static constexpr size_t kUnsteady = 3;         ///< changes
  static constexpr int64_t kUnsteadySteps = 96;  ///< in so many steps: it changes to and fro
  static constexpr double kSlow = 1.15;          ///< times as long as usual: it is slow
  static constexpr double kAsUsual = 1.1;        ///< times as long as usual: it is not slow any more

 private:
  struct Average {
    int64_t samples = 0, count = 0;
    double time_s = 0;
    double usual_s = 0;         // time_s when nothing slows the rank
    double expected_s = 0;      // by a batch of about the same size, until it is measured; 0: there is none
    std::vector<double> first;  // until there are enough for an EWMA
  };

  Average& averageAt(int64_t samples);
  bool farOff(const Average& average, double busy_s);
  double expected(int64_t samples) const;
  void change(Average& average, int64_t step);
  void include(Average& average, double busy_s);
  void compare(const Average& average, int64_t step);

  struct Level {
    int64_t step = 0;   // from which it holds
    double time_s = 1;  // of steps, as a multiple of those that the rank began with
  };

  void fit();

  std::vector<Average> averages_;  // the one in use last
  std::vector<double> pending_;    // far off, in a row, on one side
  RankCost cost_;
  int64_t steps_ = 0, changes_ = 0, last_change_ = -1, newest_ = 0, refused_ = 0;
  std::vector<Level> levels_ = {{}};  // the newest last
  double slowdown_ = 1;
  std::optional<int64_t> slow_since_;
};

}  // namespace tracesmith::schedule
