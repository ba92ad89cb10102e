#include "sink/exports.hpp"

#include <unistd.h>

#include <chrono>

#include "base/clock.hpp"

namespace tracesmith::sink {
namespace {

std::string hostName() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace

Result<std::unique_ptr<Exports>> Exports::start(const Options& asked, std::function<MetricSet()> read) {
  Options options = asked;
  if (options.instance.empty()) options.instance = hostName();
  std::unique_ptr<Exports> exports(new Exports());
  exports->interval_s_ = options.interval_s;
  exports->read_ = std::move(read);
  using Make = Result<std::unique_ptr<Sink>> (*)(const Options&);
  const std::pair<const std::string*, Make> all[] = {{&options.remote_write, makeRemoteWrite},
                                                     {&options.otlp, makeOtlp},
                                                     {&options.influx, makeInflux},
                                                     {&options.statsd, makeStatsd}};
  for (const auto& [address, make] : all) {
    if (address->empty()) continue;
    Result<std::unique_ptr<Sink>> sink = make(options);
    if (!sink) return sink.status();
    const std::string folder = options.folder + "/" + (*sink)->name();
    Result<std::unique_ptr<Sender>> sender = Sender::start(std::move(*sink), folder, options.queue_bytes);
    if (!sender) return sender.status();
    exports->senders_.push_back(std::move(*sender));
  }
  exports->thread_ = std::thread([e = exports.get()] { e->loop(); });
  return exports;
}

Exports::~Exports() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Exports::loop() {
  const auto period =
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(interval_s_));
  auto next = std::chrono::steady_clock::now();
  uint64_t readings = 0;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    const int64_t now = unixClock();
    MetricSet metrics = read_();
    metrics.begin("tracesmith_export_readings_total", MetricType::counter,
                  "how often the metrics were read to be sent: a number that is missing is a reading that was lost");
    metrics.value({}, static_cast<double>(++readings));
    {
      std::lock_guard spans(spans_mutex_);
      for (auto& sender : senders_) sender->metrics(metrics, now);
    }
    // One that came late is not made up for: two readings of the same millisecond would be refused.
    next = std::max(next + period, std::chrono::steady_clock::now() + period / 2);
    lock.lock();
    changed_.wait_until(lock, next, [&] { return stop_; });
  }
}

bool Exports::takesSpans() const {
  for (const auto& sender : senders_)
    if (sender->takesSpans()) return true;
  return false;
}

bool Exports::hasRoom() const {
  for (const auto& sender : senders_)
    if (sender->takesSpans() && !sender->hasRoom()) return false;
  return true;
}

void Exports::spans(std::span<const Span> spans) {
  std::lock_guard lock(spans_mutex_);
  for (auto& sender : senders_)
    if (sender->takesSpans()) sender->spans(spans);
}

std::vector<model::ExportStatus> Exports::status() const {
  std::vector<model::ExportStatus> all;
  for (const auto& sender : senders_) all.push_back(sender->status());
  return all;
}

}  // namespace tracesmith::sink
