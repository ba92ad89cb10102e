// What a command may write to: no output destroys an input or a recording.
#pragma once

#include <string>
#include <vector>

#include "cli/options.hpp"

namespace tracesmith::cli {

/// Fails if `output` is one of the inputs (or a file below an input folder that is not a trace: those are passed over
/// when folders are read), or is a recording and not `force`.
/// "-", pipes and devices may always be written.
Status checkOutput(const std::string& output, const std::vector<std::string>& inputs, bool force = false);
void addForce(Command& command, bool& force);

}  // namespace tracesmith::cli
