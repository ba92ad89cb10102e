// Frames by their numbers in a table of stacks: names are looked up once for each place in the code.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "process/python.hpp"
#include "process/unwind.hpp"
#include "trace/stack_counts.hpp"

namespace tracesmith::process {

/// The table stays the caller's.
class FrameNumbers {
 public:
  explicit FrameNumbers(trace::StackTable& table) : table_(table) {}

  /// Forgets frames whose code is no longer what it was; before any of these is asked for.
  void check(PythonStacks& python, const RawStack& stack);
  uint32_t of(PythonStacks& python, const RawFrame& frame);

  struct Native {
    uint32_t number = 0;
    bool loop = false;     ///< of the interpreter: Python frames take its place
    bool nowhere = false;  ///< in no module that is known
  };
  const Native& of(Unwinder& unwinder, uint64_t place);

  /// Of native frames, when modules have come or gone.
  void forgetNative() { places_.clear(); }
  void forget();

 private:
  trace::StackTable& table_;
  std::unordered_map<uint64_t, std::unordered_map<int64_t, uint32_t>> codes_;  // code → offset → frame
  size_t known_offsets_ = 0;
  std::unordered_map<uint64_t, Native> places_;
};

}  // namespace tracesmith::process
