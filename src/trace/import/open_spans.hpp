// Events told in two parts: B and E of a thread, b and e of an id. Bounded: what does not fit is given back open.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tracesmith/trace/schema.hpp"

namespace tracesmith::trace {

/// A part that waits for its end.
struct OpenSpan {
  EventRow row;          // everything but dur and args
  std::string members;   // of args, JSON without braces
  int64_t step = kNull;  // number of the training step it is
};

class OpenSpans {
 public:
  /// False if there are too many open spans already.
  bool open(const std::string& key, OpenSpan span);
  /// Takes the span that was opened last under this key; false if there is none.
  bool close(const std::string& key, OpenSpan& span);
  /// Hands out all that are still open, in the order of their start.
  void drain(const std::function<void(OpenSpan&)>& take);

 private:
  std::unordered_map<std::string, std::vector<OpenSpan>> spans_;
  size_t count_ = 0, bytes_ = 0;
};

}  // namespace tracesmith::trace
