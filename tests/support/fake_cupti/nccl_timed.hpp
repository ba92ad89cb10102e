// Scenarios of fake_nccl on a driver with events, which time operations in watch mode.
#pragma once

namespace tracesmith::fake {

/// Until the probe records kernels, or does not.
void waitForCupti(bool on);
/// In watch mode, outside windows and within, on a driver with events. Prints when the GPU ran what:
/// "elements start end", raw clock.
void events();
/// Steps of a millisecond with an operation each.
void eventSteps();

}  // namespace tracesmith::fake
