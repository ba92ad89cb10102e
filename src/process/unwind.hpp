// Native frames from a copy of a stack, by the unwind tables of the programs and libraries. The work is elfutils'
// libdw, which is loaded when it is needed.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "process/modules.hpp"
#include "process/stopped.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::process {

struct NativeFrame {
  std::string function;             ///< readable; empty: no symbol is known
  std::string file;                 ///< of the program or library; empty: not in one
  std::optional<uint64_t> address;  ///< in the file
  std::string source;               ///< its source file, where there is debug information; empty: not known
  std::optional<int64_t> line;      ///< in the source
};

struct UnwindOptions {
  /// Also lines and inlined functions, where the files, or those that are installed for them (/usr/lib/debug), have
  /// debug information; that takes a while for large files.
  bool sources = false;
  /// By UnwindRules where they can tell: for who looks at the same process again and again. Else by libdw alone.
  bool rules = false;
};

/// One thread at a time.
class Unwinder {
 public:
  static constexpr size_t kMostFrames = 4096;

  virtual ~Unwinder() = default;
  /// The innermost first. `complete`: it ends where the thread began.
  std::vector<NativeFrame> unwind(const Snapshot& snapshot, bool& complete);
  /// The same as places in the code, for at(). Valid until the next call.
  virtual const std::vector<uint64_t>& walk(const Snapshot& snapshot, bool& complete) = 0;
  /// The function at a place; before it those that were inlined there, the innermost first. It stays valid.
  virtual const std::vector<NativeFrame>& at(uint64_t place) = 0;

  /// The modules stay the caller's.
  static Result<std::unique_ptr<Unwinder>> create(pid_t pid, const std::vector<Module>& modules,
                                                  const UnwindOptions& options = {});
};

}  // namespace tracesmith::process
