// How rows of `events` and records of a ring look as TraceEvent, the type programs know.
#pragma once

#include <optional>
#include <string_view>

#include "tracesmith/common/types.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith::model {

/// Copies, calls and waits are told apart by their names.
tracesmith::EventType publicType(trace::EventType type, std::string_view name);
/// From the text of a launch shape. None where grid and block are not known.
std::optional<KernelParams> kernelParams(std::string_view launch);

}  // namespace tracesmith::model
