// All receivers together: reads the metrics at regular intervals and hands them to each.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sink/sender.hpp"

namespace tracesmith::sink {

/// Thread safe. Runs from start() to its destruction.
class Exports {
 public:
  /// `read`: the metrics now; called by a thread of this object.
  static Result<std::unique_ptr<Exports>> start(const Options& options, std::function<MetricSet()> read);
  ~Exports();

  /// Whether anybody takes spans,
  bool takesSpans() const;
  /// and all of those have room for more.
  bool hasRoom() const;
  /// By one thread.
  void spans(std::span<const Span> spans);
  std::vector<model::ExportStatus> status() const;

 private:
  Exports() = default;
  void loop();

  double interval_s_ = 0;
  std::function<MetricSet()> read_;
  std::vector<std::unique_ptr<Sender>> senders_;
  std::mutex spans_mutex_;  // one thread makes messages of a sink at a time
  std::mutex mutex_;        // guards stop_
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tracesmith::sink
