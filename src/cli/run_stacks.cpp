#include "cli/run_stacks.hpp"

#include "base/clock.hpp"
#include "capture/collect/collector.hpp"
#include "capture/ring/reader.hpp"
#include "process/vitals.hpp"

namespace tracesmith::cli {
namespace {

constexpr int64_t kSearchNs = 500'000'000;      // between two searches for new processes
constexpr int64_t kPatienceNs = 1'000'000'000;  // until the command itself is sampled
constexpr double kForever = 1e9;

process::SamplingOptions optionsOf(double rate) {
  process::SamplingOptions o;
  o.seconds = kForever;
  o.rate = rate;
  o.python_only = o.waits = true;
  return o;
}

}  // namespace

RunStacks::RunStacks(trace::Writer& writer, std::string ring_folder, pid_t command, double rate)
    : folder_(std::move(ring_folder)),
      command_(command),
      sampling_(optionsOf(rate)),
      rows_(writer, sampling_.counts()),
      begin_ns_(rawClock()) {
  thread_ = std::thread([this] { run(); });
}

RunStacks::~RunStacks() { (void)stop(); }

void RunStacks::run() {
  status_ = sampling_.run(stop_, &rows_, [this](double) {
    if (rawClock() - looked_ns_ >= kSearchNs) addNew();
  });
  if (status_) status_ = rows_.finish(sampling_, false);
}

void RunStacks::addNew() {
  looked_ns_ = rawClock();
  bool rings = false;
  for (const std::string& path : ring::findRings(folder_)) {
    const Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(path);
    if (!reader || !(*reader)->alive()) continue;
    rings = true;
    const auto pid = static_cast<pid_t>((*reader)->shownPid());
    const int32_t rank = (*reader)->header().rank.load();
    if ((*reader)->header().simulated || !tried_.insert(pid).second) continue;
    (void)sampling_.add(pid, rank >= 0 ? std::optional<int64_t>(rank) : std::nullopt, capture::hostName());
  }
  if (!rings && looked_ns_ - begin_ns_ > kPatienceNs && process::looksLikePython("", command_) &&
      tried_.insert(command_).second)
    (void)sampling_.add(command_, {}, capture::hostName());
}

Status RunStacks::stop() {
  if (!thread_.joinable()) return {};
  stop_ = true;
  thread_.join();
  return status_;
}

}  // namespace tracesmith::cli
