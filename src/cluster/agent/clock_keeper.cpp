#include "cluster/agent/clock_keeper.hpp"

#include <chrono>
#include <fstream>

#include "access/names.hpp"
#include "base/file.hpp"

namespace tracesmith::cluster {
namespace {

constexpr int kBurst = 8;
constexpr int kTimeoutMs = 200;
constexpr auto kPeriod = std::chrono::milliseconds(1000);
constexpr auto kFastPeriod = std::chrono::milliseconds(100);
constexpr auto kSavePeriod = std::chrono::seconds(10);
constexpr size_t kFastExchanges = 128;  // until then bursts follow one another faster
constexpr double kRestartPpm = 0.5;     // what the drift may have changed by while nobody looked

}  // namespace

ClockKeeper::ClockKeeper(std::string file) : file_(std::move(file)) {
  load();
  thread_ = std::thread([this] { loop(); });
}

ClockKeeper::~ClockKeeper() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  save();
}

bool ClockKeeper::follow(const std::string& host, uint16_t port, uint64_t key) {
  Result<std::unique_ptr<sync::ExchangeClient>> client = sync::ExchangeClient::connect(host, port, key, sync::rawClock);
  if (!client) return false;
  std::vector<sync::Exchange> burst = (*client)->burst(kBurst, kTimeoutMs);
  if (burst.empty()) return false;
  std::lock_guard lock(mutex_);
  fit_.add(burst);
  client_ = std::move(*client);
  changed_.notify_all();
  return true;
}

void ClockKeeper::add(const std::vector<sync::Exchange>& burst) {
  std::lock_guard lock(mutex_);
  fit_.add(burst);
}

ClockReport ClockKeeper::now() const {
  const int64_t raw = sync::rawClock();
  std::lock_guard lock(mutex_);
  ClockReport report{fit_.at(raw), fit_.faults(), fit_.bestDelay()};
  report.model.method = "exchange";
  if (report.model.valid()) return report;
  if (saved_.valid()) {
    report.model = saved_;
    report.model.offset_ns = saved_.toReference(raw) - raw;
    report.model.at_ns = raw;
    report.model.bound_ns += static_cast<int64_t>(static_cast<double>(raw - saved_.at_ns) * kRestartPpm / 1e6);
    return report;
  }
  report.model.method = "system clock";
  report.model.offset_ns = sync::unixClock() - raw;
  return report;
}

void ClockKeeper::loop() {
  std::chrono::steady_clock::time_point saved_at{};
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (std::shared_ptr<sync::ExchangeClient> client = client_) {
      lock.unlock();
      const std::vector<sync::Exchange> burst = client->burst(kBurst, kTimeoutMs);
      lock.lock();
      if (client == client_) fit_.add(burst);
    }
    if (const auto now = std::chrono::steady_clock::now(); client_ && now - saved_at > kSavePeriod) {
      saved_at = now;
      lock.unlock();
      save();
      lock.lock();
    }
    const bool fast = client_ && fit_.exchanges() < kFastExchanges;
    changed_.wait_for(lock, fast ? kFastPeriod : kPeriod, [&] { return stop_; });
  }
}

void ClockKeeper::save() const {
  const ClockReport report = now();
  if (!report.model.valid()) return;
  Result<OutputFile> out = OutputFile::create(file_);
  if (!out) return;
  const sync::ClockModel& m = report.model;
  char text[200];
  std::snprintf(text, sizeof text, "%s %lld %lld %.9f %lld\n", access::kernelBootId().c_str(),
                static_cast<long long>(m.at_ns), static_cast<long long>(m.offset_ns), m.drift_ppm,
                static_cast<long long>(m.bound_ns));
  if (out->write(text)) (void)out->commit();
}

void ClockKeeper::load() {
  std::ifstream in(file_);
  std::string boot;
  sync::ClockModel m;
  m.method = "exchange";
  if (in >> boot >> m.at_ns >> m.offset_ns >> m.drift_ppm >> m.bound_ns && boot == access::kernelBootId()) saved_ = m;
}

}  // namespace tracesmith::cluster
