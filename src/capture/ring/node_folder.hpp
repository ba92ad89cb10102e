// The folder of rings that all processes of a user on this node share. That of one `tracesmith run` is in it.
#pragma once

#include <string>

#include "tracesmith/common/status.hpp"

namespace tracesmith::ring {

/// The name of a folder of one `run` begins like this.
constexpr const char* kRunPrefix = "run-";

/// ring::ringFolder(), or the folder it is in if it is that of a `run`.
Result<std::string> nodeFolder();

}  // namespace tracesmith::ring
