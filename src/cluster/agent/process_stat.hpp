// What /proc says about a process.
#pragma once

#include <cstdint>
#include <optional>

namespace tracesmith::cluster {

struct ProcessStat {
  bool stopped;  // by a signal, or a debugger
  uint64_t cpu_ns;
};

/// Nothing if it is gone.
std::optional<ProcessStat> readStat(int64_t pid);
/// Bytes its calls have read and written; only its own user may see them.
std::optional<uint64_t> readIo(int64_t pid);

}  // namespace tracesmith::cluster
