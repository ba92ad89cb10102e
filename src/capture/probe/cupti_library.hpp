// Finds libcupti and its functions.
#pragma once

#include "capture/probe/cupti_abi.hpp"

namespace tracesmith::probe {

/// The libcupti the process has, or nullptr.
void* loadedCupti();
/// The copy the process already has, else one near the CUDA runtime it uses, else an installed toolkit's.
void* openCupti();
/// False if it lacks functions that nothing works without.
bool resolveCupti(void* library, cupti::Functions& out);

}  // namespace tracesmith::probe
