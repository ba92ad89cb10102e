// Processes that are at the same place of the same program, together: "61 ranks in all_reduce, called from
// trainer.py:212; 3 ranks in DataLoader.__next__".
#pragma once

#include <string>
#include <vector>

#include "process/backtrace.hpp"

namespace tracesmith::process {

struct StackGroup {
  std::vector<size_t> members;  ///< of the processes that were given, in their order
  std::string what;             ///< the function of a library that the program called, or the program's own
  bool own = false;             ///< `what` is a function of the program itself
  std::string place;            ///< file:line of the program, in `what` or where it calls it; empty: not known
  size_t thread = 0;            ///< of the first member: whose frames these are
};

/// The thread that says where a process is: the first that runs Python code, or the first of all.
size_t tellingThread(const Stacks& process);

/// "all_reduce, called from trainer.py:212".
std::string whereText(const StackGroup& group);

/// The largest first. Processes of different jobs are never together. Compared are the first Python threads, or the
/// first threads: their frames from the outermost one to the function of a library that the program called. What that
/// function does inside may differ.
std::vector<StackGroup> groupStacks(const std::vector<Stacks>& processes);

/// Processes of this machine that have a Python interpreter in them; of others' processes only those that may be read.
/// `refused`: how many look like Python but may not be read.
std::vector<pid_t> pythonProcesses(size_t& refused);

/// Stacks of several processes, in their order, several at a time. Those that ended meanwhile are left out; of those
/// that may not be read, `refused` counts.
std::vector<Stacks> backtraces(const std::vector<pid_t>& pids, const BacktraceOptions& options, size_t& refused);

}  // namespace tracesmith::process
