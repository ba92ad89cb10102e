// What every rank of a job does from some step on: how many samples, in how many micro-batches, which layers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::schedule {

constexpr int64_t kFirstVersion = 1;  ///< of the plan that a job begins with, if it is not uniform

struct RankPlan {
  int64_t batch = 0;          ///< samples in a step
  int64_t micro_batches = 1;  ///< in which it trains them, one after the other; gradients add up
  double weight = 0;          ///< of its mean gradient in the mean of all samples: batch / total
  int64_t layers = 0;         ///< of a pipeline's stage, in order of the ranks; 0: the whole model
  int64_t priority = 0;       ///< 1: the others wait for it if it is late; 0: it has time to spare, or is not measured
};

struct Plan {
  int64_t version = 0;    ///< larger than that of any plan before; 0: equal batches, of no plan
  int64_t from_step = 0;  ///< all ranks follow it from here on
  std::vector<RankPlan> ranks;
  double before_s = 0, after_s = 0;  ///< predicted time of a step, without this plan and with it; 0: not predicted
  std::string reason;                ///< one sentence

  int64_t total() const;
  std::vector<int64_t> batches() const;
  /// Part of the step's time that it saves: 0.2 is 20 %.
  double gain() const { return before_s > 0 ? 1 - after_s / before_s : 0; }
};

/// With the weights that belong to the batches. No `micro_batches`: one each.
Plan planOf(const std::vector<int64_t>& batches, const std::vector<int64_t>& micro_batches = {});

/// As equal as whole numbers can be; the first ranks have one sample more.
Plan uniformPlan(int64_t total, int64_t ranks);

/// Whether a job of so many ranks and samples in a step can follow it; if not, why.
Status checkPlan(const Plan& plan, int64_t ranks, int64_t total);

}  // namespace tracesmith::schedule
