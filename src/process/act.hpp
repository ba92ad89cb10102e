// What is done to processes for those who ask for it, also from elsewhere: the probe brought in or paused, code run,
// stacks sampled for a while.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <vector>

#include "capture/collect/training_now.hpp"
#include "model/travel.hpp"

namespace tracesmith::process {

/// Several at a time. What fails says so in its outcome. `stop`: nobody waits any more; null: somebody always does.
std::vector<model::ActionOutcome> act(const model::ProcessAction& action, const std::vector<int64_t>& pids,
                                      const std::atomic<bool>* stop);

/// `stop` ends it early; null: nothing does.
std::vector<model::SampledStacks> sampleFor(const model::SampleWish& wish, const std::vector<pid_t>& pids,
                                            const std::vector<capture::ProcessNow>& recorded,
                                            const std::atomic<bool>* stop);

/// How long an answer to it takes at most, beyond what any answer takes; 0 for questions. A wish for more than a minute
/// is cut when it comes from elsewhere.
double secondsOf(const model::ProcessQuery& query);
constexpr double kMostSeconds = 60;

}  // namespace tracesmith::process
