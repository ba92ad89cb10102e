// Watch mode: the GPU's work is recorded in windows, and what that costs is measured in the job itself.
//
// Where steps are marked, a window is some steps of every so many, by their numbers: the same ones on all ranks. Where
// none are, it is a part of a period of the machine's raw clock: the same on all processes of a node, not of a cluster.
#pragma once

#include "capture/probe/probe.hpp"

namespace tracesmith::probe {

/// Takes TRACESMITH_WINDOW ("2/100": 2 steps of every 100) and TRACESMITH_BUDGET_PPM from the environment.
void readWindow(RingWriter& r);

/// A step begins, or has ended after so long. The job's threads call these; a step with which a window opens or closes
/// wakes the probe's thread.
void watchStepBegin(RingWriter& r, int64_t step);
void watchStepEnd(RingWriter& r, uint64_t duration_ns);

/// Whether a step's GPU work is recorded, with windows of `steps` at each multiple of `every`. A window opens a step
/// early, so that its steps are whole. The windows at multiples of 2 × `every` are windows at multiples of `every`.
constexpr bool stepInWindow(int64_t step, int64_t steps, int64_t every) {
  if (steps >= every) return true;
  const int64_t at = ((step % every) + every) % every;
  return at < steps || (at == every - 1 && steps + 1 < every);
}

/// Whether the GPU's work is to be recorded now; always outside watch mode.
bool inWindow(RingWriter& r);

// What follows is for the probe's own thread.

/// What to hand to sleepUnlessWoken(): taken before anything is looked at.
uint32_t wakeCount();
/// Sleeps for so long, or until a window opens or closes; not at all if it was woken since the count was taken.
void sleepUnlessWoken(uint32_t count, long ns);
/// GPU records have been turned on or off. Another profiler's thread may call it, too.
void windowChanged(RingWriter& r, bool on);
/// What was recorded has been fetched: after a window its cost is looked at.
void windowFetched(RingWriter& r);

}  // namespace tracesmith::probe
