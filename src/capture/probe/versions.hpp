// Which versions of NCCL and CUDA the process has loaded, asked of the libraries themselves.
#pragma once

#include "capture/probe/probe.hpp"

namespace tracesmith::probe {

/// When a communicator is made: CUDA is up, and its functions may be called. `nccl`: an address in the NCCL that makes
/// it.
void tellVersions(RingWriter& ring, const void* nccl);

}  // namespace tracesmith::probe
