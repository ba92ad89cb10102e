// Stacks that a master asked for, because its job hangs: sessions that record keep them, too.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "cluster/api.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::cluster {

/// Those of the last moments. Thread safe.
class AskedStacks {
 public:
  /// As they are now.
  void put(const std::vector<Stacks>& stacks);
  /// Appends those that were read since then as rows, once; returns how many.
  Result<size_t> take(trace::Writer& writer, trace::Appender& out, int64_t node, int64_t since_raw);

 private:
  struct Read {
    int64_t ts = 0;
    std::vector<Stacks> stacks;
  };
  std::mutex mutex_;  // guards what follows
  std::deque<Read> read_;
};

}  // namespace tracesmith::cluster
