// A trace file, as the C API has it: SQL over it, its analysis, its difference from another.
#pragma once

#include "sdk/object.hpp"

namespace tracesmith::sdk {

Class traceClass();

}  // namespace tracesmith::sdk
