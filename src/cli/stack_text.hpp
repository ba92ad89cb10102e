// Stacks of running processes, as people read them.
#pragma once

#include <string>
#include <vector>

#include "process/groups.hpp"

namespace tracesmith::cli {

void printFrames(const std::vector<process::Frame>& frames);
void printStacks(const process::Stacks& stacks);
/// Names of the jobs of these processes, each once.
std::vector<std::string> jobsOf(const std::vector<process::Stacks>& processes);
/// "3 ranks (0, 2, 3)", or where ranks are not known "2 processes (12, 15)"; with " of job 7" if there are several
/// jobs.
std::string whoText(const process::StackGroup& group, const std::vector<process::Stacks>& processes);
/// Processes at the same place together, and a stack of each place.
void printGroups(const std::vector<process::Stacks>& processes);

}  // namespace tracesmith::cli
