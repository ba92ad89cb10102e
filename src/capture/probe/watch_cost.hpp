// What watch mode costs the job, measured in the job itself: steps with GPU records against steps without, and the CPU
// time of the probe's own thread. Where there is a budget, the windows are thinned until they keep to it.
#pragma once

#include "capture/probe/probe.hpp"

namespace tracesmith::probe {

/// How the GPU's records stood during a step.
enum class StepKind { without, opening, with, closing };

/// A step has ended. The job's threads call it.
void stepTook(StepKind kind, uint64_t duration_ns);

// What follows is for the probe's own thread.

/// The account begins: again in the child of a fork.
void startCost();
/// A window opens: its steps are compared with those before it.
void costWindowOpens();
/// A window has closed and its records were fetched. Tells the cost as a counter and in the ring's header. Where it
/// exceeds the budget, what comes between windows is doubled: multiples of 200 are multiples of 100, so the windows
/// that are left are windows of all ranks, whatever each of them found.
void lookAtCost(RingWriter& r);

}  // namespace tracesmith::probe
