// The whole command line: `tracesmith` with every command. The program parses with it; manual pages and the completion
// of shells are made from it.
#pragma once

#include <memory>

#include "cli/commands.hpp"

namespace tracesmith::cli {

/// `run` is set when a command was chosen.
std::unique_ptr<CLI::App> makeCommands(Run& run);

}  // namespace tracesmith::cli
