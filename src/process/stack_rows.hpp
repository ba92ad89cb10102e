// Samples of stacks as rows of a trace.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "process/sampling.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::process {

/// Samples in a row that are the same are one row, which is written when it ends, or after some seconds. Used by one
/// thread.
class StackRows : public SampleSink {
 public:
  /// Both stay the caller's.
  StackRows(trace::Writer& writer, const trace::StackCounts& counts);

  /// For a trace that has nothing else: the session, the machine and its clock.
  Status begin(const std::string& node);
  Status sample(int64_t ts, uint32_t thread, const ThreadSample& sample) override;
  Status lookEnds(int64_t ts) override;
  /// What is open and what was missed; with `describe`, also who the processes and threads are.
  Status finish(const Sampling& sampling, bool describe);

 private:
  struct Open {
    bool open = false;
    trace::StackRow row;
    uint32_t stack = 0;
    int64_t last_ns = 0;
  };
  Status end(Open& open, int64_t at_ns);
  Status describeProcesses();
  Status lost(size_t process, const char* cause, uint64_t count, const std::string& detail);
  int64_t stackText(uint32_t stack);

  trace::Writer& writer_;
  const trace::StackCounts& counts_;
  std::unique_ptr<trace::Appender> out_;
  std::vector<Open> open_;  // by thread
  std::unordered_map<uint32_t, int64_t> texts_;
  int64_t flushed_ns_ = 0, looked_ns_ = 0;
};

}  // namespace tracesmith::process
