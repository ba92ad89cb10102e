// What is made from the commands: manual pages and completion.
#pragma once

#include "cli/command_text.hpp"

namespace tracesmith::cli {

/// A page for man(1), in section 1.
std::string manPage(const CommandText& command, const std::string& version);
std::string bashCompletion(const CommandText& program);
std::string zshCompletion(const CommandText& program);

}  // namespace tracesmith::cli
