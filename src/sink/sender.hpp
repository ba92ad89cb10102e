// Sends to one receiver: what cannot be sent now waits in a queue and is tried again, less and less often.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "model/travel.hpp"
#include "sink/queue.hpp"
#include "sink/sink.hpp"

namespace tracesmith::sink {

/// Thread safe; metrics() and spans() by one thread at a time. None of them waits for the receiver.
class Sender {
 public:
  /// `folder`: of its queue.
  static Result<std::unique_ptr<Sender>> start(std::unique_ptr<Sink> sink, const std::string& folder,
                                               uint64_t queue_bytes);
  ~Sender();

  void metrics(const MetricSet& metrics, int64_t unix_ns);
  bool takesSpans() const { return sink_->takesSpans(); }
  /// Whether the queue is less than half full.
  bool hasRoom() const;
  void spans(std::span<const Span> spans);
  model::ExportStatus status() const;

 private:
  Sender() = default;
  void put(const std::vector<Message>& messages);
  void loop();
  void note(const Delivery& delivery, uint64_t items);

  std::unique_ptr<Sink> sink_;
  uint64_t queue_bytes_ = 0;
  Queue queue_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  uint64_t sent_ = 0, retries_ = 0, dropped_ = 0;
  std::string problem_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tracesmith::sink
