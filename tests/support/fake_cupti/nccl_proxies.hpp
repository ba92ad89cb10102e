// Scenarios of fake_nccl with the operations of NCCL's proxy.
#pragma once

namespace tracesmith::fake {

/// Ten of this process and five of another.
void proxy();
/// A send of two steps that overlap and a receive of one, each told through all its states; and a send that says
/// nothing of its steps.
void proxySteps(int version);

}  // namespace tracesmith::fake
