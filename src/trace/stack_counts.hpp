// Samples of stacks, counted: what a sampler saw, or what a trace has in its table `stacks`.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::trace {

class Reader;

/// A frame as the table `stacks` has it: "step (train.py:12)" of Python, "memcpy [libc.so.6]" of native code.
std::string pythonFrame(std::string_view function, std::string_view file, std::optional<int64_t> line);
std::string nativeFrame(std::string_view function, std::string_view file, std::optional<uint64_t> address);
inline bool isNativeFrame(std::string_view frame) { return frame.ends_with(']'); }
constexpr char kFrameSeparator = ';';
constexpr std::string_view kOnCpu = "on-CPU", kWaiting = "waiting";
/// Keys of `metadata`: looks a second, and for how long.
constexpr std::string_view kStacksRate = "stacks: rate", kStacksSeconds = "stacks: seconds";

/// Frames and stacks by number. A stack is the stack of its callers and one more frame, so that equal ones are kept
/// once.
class StackTable {
 public:
  static constexpr uint32_t kNone = 0;  ///< the stack without frames

  uint32_t frame(std::string_view text);
  /// The outermost first.
  uint32_t stack(std::span<const uint32_t> frames);
  /// Of the text that a trace has.
  uint32_t parse(std::string_view text);

  const std::string& text(uint32_t frame) const { return *texts_[frame]; }
  size_t frames() const { return texts_.size(); }
  /// The outermost first.
  std::vector<uint32_t> framesOf(uint32_t stack) const;
  /// As a trace has it.
  std::string textOf(uint32_t stack) const;

 private:
  struct Node {
    uint32_t callers, frame;
  };
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<const std::string*> texts_;
  std::vector<Node> nodes_ = {{0, 0}};
  std::unordered_map<uint64_t, uint32_t> below_;  // callers and frame → node
};

struct StackCounts {
  enum State { on_cpu, waiting, unknown, kStates };
  struct Process {
    std::string node, command;
    std::optional<int64_t> rank;
    int64_t pid = 0;
    uint64_t looks = 0, missed = 0;  ///< missed: looks that were due and gave nothing
  };
  struct Thread {
    size_t process = 0;
    std::optional<int64_t> tid;
    std::string name;
  };
  struct Count {
    std::array<uint64_t, kStates> samples{};
    uint64_t all() const { return samples[on_cpu] + samples[waiting] + samples[unknown]; }
  };

  StackTable table;
  std::vector<Process> processes;
  std::vector<Thread> threads;
  std::unordered_map<uint64_t, Count> counts;  ///< by key()
  double rate = 0;                             ///< looks a second that were asked for; 0: not known
  double seconds = 0;
  bool simulated = false;

  static uint64_t key(uint32_t thread, uint32_t stack) { return uint64_t{thread} << 32 | stack; }
  static uint32_t threadOf(uint64_t key) { return static_cast<uint32_t>(key >> 32); }
  static uint32_t stackOf(uint64_t key) { return static_cast<uint32_t>(key); }
  uint64_t samples() const;
};

/// Fails if the trace has no stacks.
Result<StackCounts> readStacks(const Reader& reader);

}  // namespace tracesmith::trace
