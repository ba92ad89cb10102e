// The names of a trace, as analyses have them: numbers.
#pragma once

#include "trace/name_numbers.hpp"

namespace tracesmith::analysis {

using Names = trace::NameNumbers;
using trace::kNoName;

}  // namespace tracesmith::analysis
