#include "sdk/recorder.hpp"

#include <unistd.h>

#include <chrono>

#include "base/clock.hpp"

namespace tracesmith::sdk {

namespace {
constexpr auto kBetween = std::chrono::milliseconds(10);  // a full lane lasts much longer
constexpr int kTurnsPerFlush = 100;                       // a second: whoever reads the file sees it so late, at most
}  // namespace

Recorder::~Recorder() {
  if (isRecording()) (void)stop();  // nobody is left to hear of it
}

Status Recorder::start() {
  if (isRecording()) return Status::invalid("already recording");
  if (!config_.force && ::access(config_.path.c_str(), F_OK) == 0)
    return Status::invalid(config_.path + " exists already: remove it, or pass force");
  Result<std::unique_ptr<capture::RingSource>> source = capture::RingSource::open(config_.platform, config_.profiler);
  if (!source) return source.status();
  for (const std::string& path : (*source)->paths())
    if (auto reader = ring::RingReader::open(path); reader && (*reader)->attachedReader() != 0)
      return Status::busy("this process is already being recorded");  // a second reader would take its records
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(config_.path);
  if (!writer) return writer.status();
  auto collector = std::make_unique<capture::Collector>(**writer, capture::hostName());
  const uint64_t begin = rawClock();
  for (const std::string& path : (*source)->paths()) TS_TRY(collector->follow(path, true));
  // Simulated time may run faster than ours.
  if (!(*source)->simulated()) collector->leaveOutBefore(begin);
  source_ = std::move(*source);
  writer_ = std::move(*writer);
  collector_ = std::move(collector);
  source_->ownReader();
  source_->setRecording(true);
  stop_ = false;
  failed_ = {};
  thread_ = std::thread([this] { follow(); });
  return {};
}

Status Recorder::drain() {
  Result<size_t> taken = collector_->drain();
  return taken ? Status() : taken.status();
}

void Recorder::follow() {
  for (int turn = 1; !stop_ && failed_.ok(); ++turn) {
    failed_ = drain();
    if (failed_.ok() && turn % kTurnsPerFlush == 0) failed_ = collector_->flush();
    std::this_thread::sleep_for(kBetween);
  }
}

Result<Recorded> Recorder::stop() {
  if (!isRecording()) return Status::invalid("not recording");
  source_->setRecording(false);  // and the probe has delivered what it had
  stop_ = true;
  thread_.join();
  if (failed_.ok()) failed_ = drain();
  if (failed_.ok()) failed_ = collector_->finish();
  const capture::CollectorStats stats = collector_->stats();
  collector_.reset();
  if (failed_.ok()) failed_ = writer_->close();
  writer_.reset();
  source_.reset();
  if (!failed_) return failed_;
  return Recorded{config_.path, stats.records,   stats.kernels, stats.collectives,
                  stats.losses, stats.simulated, stats.notes};
}

}  // namespace tracesmith::sdk
