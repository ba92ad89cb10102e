// Stacks that a process under the probe tells of itself, where its memory may not be read from outside: containers
// without SYS_PTRACE, Yama.
#pragma once

#include <string>
#include <string_view>

#include "process/backtrace.hpp"

namespace tracesmith::process {

/// Asks the probe in it. Python frames only. Fails if it has no probe, or does not answer within some seconds: it is
/// stopped, for example.
Result<Stacks> askForStacks(pid_t pid);

/// What the probe writes, and how it is read. Threads have the ids of the process's own PID namespace.
std::string ownStacksText(const Stacks& stacks);
Result<Stacks> parseOwnStacks(std::string_view text);

}  // namespace tracesmith::process
