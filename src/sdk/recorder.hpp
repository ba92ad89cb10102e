// Records the process it is in: loads the probe, and a thread writes what its ring gets into a trace.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "capture/api/ring_source.hpp"
#include "capture/collect/collector.hpp"
#include "sdk/structs.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::sdk {

/// One recording. start() and stop() are called one at a time.
class Recorder {
 public:
  explicit Recorder(const RecorderConfig& config) : config_(config) {}
  ~Recorder();

  /// Before the program's first CUDA call, to see all of it. The file can be read at any moment.
  Status start();
  Result<Recorded> stop();
  bool isRecording() const { return collector_ != nullptr; }

 private:
  void follow();
  Status drain();

  const RecorderConfig config_;
  std::unique_ptr<capture::RingSource> source_;
  std::unique_ptr<trace::Writer> writer_;
  std::unique_ptr<capture::Collector> collector_;  // of the thread, while it runs
  std::thread thread_;
  std::atomic<bool> stop_{false};
  Status failed_;  // of the thread: read when it has ended
};

}  // namespace tracesmith::sdk
