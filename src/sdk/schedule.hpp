// The classes that choose devices and split work, for other languages.
#pragma once

#include <vector>

#include "sdk/object.hpp"

namespace tracesmith::sdk {

std::vector<Class> scheduleClasses();
void describeScheduleStructs(JsonWriter& w);

}  // namespace tracesmith::sdk
