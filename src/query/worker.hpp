// A query of somebody else: it runs in a process of its own, `tracesmith` started again with kWorkerCommand. What is
// said between the two is in here. The statement is on the worker's standard input, the result on its standard output.
// A worker that fails prints one line on standard error and exits with exitOf(); one that does not, a WorkerReport.
#pragma once

#include <sys/types.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::query {

inline constexpr const char* kWorkerCommand = "__query";

struct WorkerOptions {
  std::string trace;
  std::string format;  ///< json (columns, rows, and what the API says about them), csv or arrow
  uint64_t max_rows = 0;
  uint64_t memory_bytes = 0;
  std::string spill;  ///< folder that the one who starts the worker makes and removes
  uint64_t spill_bytes = 0;
  int64_t time_ms = 0;
  pid_t parent = 0;  ///< the worker does not outlive it

  std::vector<std::string> toArguments() const {
    return {kWorkerCommand,
            trace,
            format,
            std::to_string(max_rows),
            std::to_string(memory_bytes),
            spill,
            std::to_string(spill_bytes),
            std::to_string(time_ms),
            std::to_string(parent)};
  }
  /// False: these are not what toArguments() gave.
  bool parse(const std::vector<std::string>& words) {
    auto number = [](const std::string& word, auto& value) {
      const char* end = word.data() + word.size();
      return std::from_chars(word.data(), end, value).ptr == end;
    };
    if (words.size() != 9 || words[0] != kWorkerCommand) return false;
    trace = words[1];
    format = words[2];
    spill = words[5];
    return number(words[3], max_rows) && number(words[4], memory_bytes) && number(words[6], spill_bytes) &&
           number(words[7], time_ms) && number(words[8], parent);
  }
};

/// What a result in any format does not say itself.
struct WorkerReport {
  uint64_t rows = 0;
  bool truncated = false;

  std::string toText() const { return std::to_string(rows) + (truncated ? " truncated" : " whole"); }
  bool parse(const std::string& text) {
    const char* end = text.data() + text.size();
    const char* rest = std::from_chars(text.data(), end, rows).ptr;
    truncated = std::string_view(rest, end) == " truncated";
    return rest != text.data() && (truncated || std::string_view(rest, end) == " whole");
  }
};

inline constexpr int kFirstExit = 64;
constexpr int exitOf(Code code) { return kFirstExit + static_cast<int>(code); }
/// kOk: no worker exits with it.
constexpr Code codeOf(int exit) {
  return exit > kFirstExit && exit < kFirstExit + static_cast<int>(kCodes) ? static_cast<Code>(exit - kFirstExit)
                                                                           : Code::kOk;
}

}  // namespace tracesmith::query
