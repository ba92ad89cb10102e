// Who called: the stack of the calling thread, as addresses. Only where somebody asks for it.
#pragma once

#include "capture/probe/probe.hpp"

namespace tracesmith::probe {

/// String id of the return addresses on the stack, hexadecimal, the innermost first; 0 if nobody asks for stacks or
/// there is no room. Takes microseconds; the first call may load the unwinder.
uint32_t callStack(RingWriter& r);

}  // namespace tracesmith::probe
