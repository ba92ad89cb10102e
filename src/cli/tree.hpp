// The whole command line: `tracesmith` with every command. The program runs it; manual pages and the completion of
// shells are made from it.
#pragma once

#include <memory>

#include "cli/options.hpp"

namespace tracesmith::cli {

std::unique_ptr<Program> makeProgram();

}  // namespace tracesmith::cli
