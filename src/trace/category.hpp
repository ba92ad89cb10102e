// Kineto's categories and our event types.
#pragma once

#include <string_view>

#include "tracesmith/trace/schema.hpp"

namespace tracesmith::trace {

/// Member of a Chrome trace that says what its times count from, in ns since 1970. Kineto's name.
constexpr std::string_view kChromeBaseKey = "baseTimeNanoseconds";
/// Event of phase M of a Chrome trace with several ranks: whose its number of a process is. Ours; others ignore it.
constexpr std::string_view kChromeOwner = "tracesmith_process";

/// Type of an event of this category, today's names and those of older profilers; `other` for what is not known.
EventType typeOfCategory(std::string_view category);
/// The same for an unknown category whose event names a device or a stream: work on an accelerator.
EventType typeOfDeviceCategory(std::string_view category);
/// The category Kineto writes today for a type; "" for marker, other and what Kineto does not have.
std::string_view categoryOf(EventType type);

}  // namespace tracesmith::trace
