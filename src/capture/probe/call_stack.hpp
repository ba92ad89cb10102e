// The call stack of the calling thread, as addresses. Recorded only on request.
#pragma once

#include "capture/probe/probe.hpp"

namespace tracesmith::probe {

/// String id of the return addresses on the stack, in hexadecimal, innermost first; 0 if no reader wants stacks or
/// there is no room. Takes microseconds; the first call may load the unwinder.
uint32_t callStack(RingWriter& r);

}  // namespace tracesmith::probe
