// The hooks that Python programs under `run` load by themselves.
#pragma once

#include "tracesmith/common/status.hpp"

namespace tracesmith::cli {

/// Puts the folder with TraceSmith's sitecustomize in front of PYTHONPATH, for the commands this process starts. An
/// error says why torch will not be hooked; the rest of a recording does not need it.
Status addPythonHooks();

}  // namespace tracesmith::cli
