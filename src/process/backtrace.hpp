// What every thread of a process is doing right now: its Python and native frames, read from outside.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "process/python_layout.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::process {

struct Frame {
  bool python = false;
  std::string function;  ///< native: empty if no symbol is known
  std::string file;      ///< Python: the source; native: the program or library
  std::optional<int64_t> line;
  std::optional<uint64_t> address;  ///< native: in the file
  uint64_t times = 1;               ///< how often it is there in a row: recursion
  bool operator==(const Frame&) const = default;
};

struct ThreadStack {
  std::optional<int64_t> tid;  ///< as this machine numbers it; nothing if a Python thread's could not be found out
  std::string name;            ///< as the kernel knows it
  char state = 0;              ///< 'R' runs, 'S' sleeps, 'D' cannot be interrupted, 'T' is stopped, …; 0: not known
  bool python = false;         ///< the interpreter knows it
  std::optional<bool> holds_gil;
  std::vector<Frame> frames;          ///< the innermost first
  bool changed = false;               ///< it moved while it was read: frames may be of different moments
  bool truncated = false;             ///< there are more frames than were read
  bool damaged = false;               ///< memory that is no stack: frames above that are there
  std::optional<int64_t> stopped_ns;  ///< how long it was stopped to read native frames; nothing if it was not
};

struct Stacks {
  pid_t pid = 0;
  std::string command, user, job;
  std::optional<int64_t> rank;
  std::optional<PythonVersion> python;  ///< nothing: not a Python process
  std::vector<ThreadStack> threads;     ///< the process's first thread first
  std::vector<std::string> notes;       ///< what is missing, and why
};

struct BacktraceOptions {
  bool native = false;
};

/// Fails if there is no such process, or if it may not be read.
Result<Stacks> backtrace(pid_t pid, const BacktraceOptions& options = {});

std::string stacksJson(const Stacks& stacks);

}  // namespace tracesmith::process
