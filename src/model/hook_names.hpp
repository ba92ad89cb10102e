// Names that the Python hooks give to ranges, beside the phases and pauses that everybody may mark.
#pragma once

#include <string_view>

namespace tracesmith::model {

/// The host waits for the GPU: "stall: Tensor.item at train.py:42", the call and the line of the program.
constexpr std::string_view kStall = "stall: ";

}  // namespace tracesmith::model
