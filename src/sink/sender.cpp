#include "sink/sender.hpp"

#include <algorithm>
#include <chrono>

namespace tracesmith::sink {
namespace {

using Outcome = Delivery::Outcome;
constexpr auto kFirstPause = std::chrono::milliseconds(500), kLongestPause = std::chrono::milliseconds(30'000);

}  // namespace

Result<std::unique_ptr<Sender>> Sender::start(std::unique_ptr<Sink> sink, const std::string& folder,
                                              uint64_t queue_bytes) {
  std::unique_ptr<Sender> sender(new Sender());
  sender->sink_ = std::move(sink);
  sender->queue_bytes_ = queue_bytes;
  if (!sender->sink_->lasting()) return sender;
  TS_TRY(sender->queue_.open(folder, queue_bytes));
  sender->thread_ = std::thread([s = sender.get()] { s->loop(); });
  return sender;
}

Sender::~Sender() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  sink_->cancel();
  if (thread_.joinable()) thread_.join();
}

void Sender::metrics(const MetricSet& metrics, int64_t unix_ns) { put(sink_->metrics(metrics, unix_ns)); }
void Sender::spans(std::span<const Span> spans) { put(sink_->spans(spans)); }
bool Sender::hasRoom() const { return queue_.bytes() < queue_bytes_ / 2; }

void Sender::put(const std::vector<Message>& messages) {
  uint64_t lost = 0;
  for (const Message& message : messages) {
    if (sink_->lasting())
      lost += queue_.put(message);
    else
      note(sink_->send(message), message.items);
  }
  std::lock_guard lock(mutex_);
  dropped_ += lost;
  changed_.notify_all();
}

/// Of a message that is not tried again.
void Sender::note(const Delivery& delivery, uint64_t items) {
  const uint64_t rejected = delivery.outcome == Outcome::sent ? std::min(delivery.rejected, items) : items;
  std::lock_guard lock(mutex_);
  sent_ += items - rejected;
  dropped_ += rejected;
  problem_ = delivery.problem;
}

void Sender::loop() {
  auto pause = kFirstPause;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    std::optional<Queue::Front> front = queue_.front();
    Delivery delivery;
    if (front && front->message) delivery = sink_->send(*front->message);
    if (front && !front->message) delivery = {Outcome::refused, 0, "the queue on disk is damaged"};
    if (front && delivery.outcome != Outcome::later) {
      note(delivery, front->items);
      queue_.remove(front->number);
    }
    lock.lock();
    if (!front) {
      changed_.wait(lock, [&] { return stop_ || queue_.items() > 0; });
    } else if (delivery.outcome == Outcome::later) {
      if (stop_) return;
      ++retries_;
      problem_ = delivery.problem;
      changed_.wait_for(lock, pause, [&] { return stop_; });
      pause = std::min<decltype(pause)>(2 * pause, kLongestPause);
    } else {
      pause = kFirstPause;
    }
  }
}

model::ExportStatus Sender::status() const {
  model::ExportStatus status;
  status.sink = sink_->name();
  status.address = sink_->address();
  status.waiting = queue_.items();
  status.waiting_bytes = queue_.bytes();
  std::lock_guard lock(mutex_);
  status.sent = sent_;
  status.retries = retries_;
  status.dropped = dropped_;
  status.problem = problem_;
  return status;
}

}  // namespace tracesmith::sink
