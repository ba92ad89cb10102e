// Names that the Python hooks give to ranges and metadata, beside the phases and pauses that everybody may mark.
#pragma once

#include <string_view>

namespace tracesmith::model {

/// The host waits for the GPU: "stall: Tensor.item at train.py:42", the call and the line of the program.
constexpr std::string_view kStall = "stall: ";

/// The key of metadata that says what the process is for: trainer, rollout, reward, evaluator, data, or any other word.
constexpr const char* kRole = "role";

}  // namespace tracesmith::model
