// What the rings of running processes hold, as a trace: the flight recorder, without taking anything from it.
#pragma once

#include <cstdint>
#include <string>

#include "tracesmith/common/status.hpp"

namespace tracesmith::cli {

/// Of one process, or of all of this user's (0). False: nothing runs under the probe, and there is no trace.
Result<bool> writeFlight(int64_t pid, const std::string& path);

}  // namespace tracesmith::cli
