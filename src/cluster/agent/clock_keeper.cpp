#include "cluster/agent/clock_keeper.hpp"

#include <chrono>
#include <fstream>

#include "access/names.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"

namespace tracesmith::cluster {
namespace {

constexpr int kBurst = 8;
constexpr int kTimeoutMs = 200;
constexpr auto kPeriod = std::chrono::milliseconds(1000);
constexpr auto kFastPeriod = std::chrono::milliseconds(100);
constexpr auto kNtpPeriod = std::chrono::seconds(16);  // a public server serves many
constexpr size_t kFastReadings = 4;                    // of NTP, at first
constexpr auto kSynchronizeAtMost = std::chrono::seconds(10);
constexpr auto kSavePeriod = std::chrono::seconds(10);
constexpr size_t kFastExchanges = 128;   // until then bursts follow one another faster
constexpr int64_t kSureNs = 10'000'000;  // a bound with which one may correct a master
constexpr double kRestartPpm = 0.5;      // what the drift may have changed by while nobody looked

}  // namespace

ClockKeeper::ClockKeeper(std::string file, sync::Source source) : file_(std::move(file)), source_(std::move(source)) {
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

bool ClockKeeper::follow(const std::string& host, uint16_t port, uint64_t key, const std::string& interface) {
  if (!exchanges()) return true;
  Result<std::unique_ptr<sync::ExchangeClient>> client =
      sync::ExchangeClient::connect(host, port, key, rawClock, interface);
  if (!client) return false;
  std::vector<sync::Exchange> burst = (*client)->burst(kBurst, kTimeoutMs);
  if (burst.empty()) return false;
  {
    std::lock_guard lock(mutex_);
    fit_.add(burst);
    client_ = std::move(*client);
    changed_.notify_all();
  }
  save();  // from now on rows have this clock: the next run goes on with it
  return true;
}

void ClockKeeper::add(const std::vector<sync::Exchange>& burst) {
  std::lock_guard lock(mutex_);
  if (exchanges()) fit_.add(burst);
}

void ClockKeeper::relateTo(const std::string& reference) {
  std::lock_guard lock(mutex_);
  if (!exchanges() || reference == reference_) return;
  if (!reference_.empty()) {
    fit_ = sync::ClockFit();
    saved_ = {};
    client_.reset();
  }
  reference_ = reference;
}

std::pair<std::string, int64_t> ClockKeeper::reference() const {
  const ClockReport report = now();
  std::lock_guard lock(mutex_);
  if (!exchanges() || reference_.empty() || !report.model.valid() || report.model.bound_ns > kSureNs)
    return {reference_, 0};
  return {reference_, report.model.at_ns + report.model.offset_ns};
}

Status ClockKeeper::askSource(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  Result<sync::Comparison> told = sync::ask(source_);
  if (told && !told->bound_ns) told = Status::invalid("the clock of " + source_.name + " is not synchronised");
  lock.lock();
  problem_ = told.status().message();
  if (!told) return told.status();
  // As the exchange that would say the same: sent and received `bound` before and after.
  const int64_t reference = told->raw_ns + told->offset_ns;
  fit_.add({told->raw_ns - *told->bound_ns, reference, reference, told->raw_ns + *told->bound_ns});
  return {};
}

Status ClockKeeper::askMaster(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<sync::ExchangeClient> client = client_;
  if (!client) return Status::invalid("no master answers datagrams; the clock is compared over its connection instead");
  lock.unlock();
  const std::vector<sync::Exchange> burst = client->burst(kBurst, kTimeoutMs);
  lock.lock();
  if (client == client_) fit_.add(burst);
  return burst.empty() ? Status::io("the master does not answer datagrams") : Status();
}

Status ClockKeeper::synchronize() {
  std::unique_lock lock(mutex_);
  const uint64_t next = round_ + 1;  // one that begins after this call
  hurry_ = true;
  changed_.notify_all();
  if (!changed_.wait_for(lock, kSynchronizeAtMost, [&] { return stop_ || done_ >= next; }))
    return Status::io("the clock's source does not answer");
  return answer_;
}

std::string ClockKeeper::problem() const {
  std::lock_guard lock(mutex_);
  return problem_;
}

ClockReport ClockKeeper::now() const {
  const int64_t raw = rawClock();
  std::lock_guard lock(mutex_);
  ClockReport report{fit_.at(raw), fit_.faults(), fit_.bestDelay()};
  report.model.method = sync::sourceName(source_.kind);
  if (report.model.valid()) return report;
  if (saved_.valid()) {
    report.model = saved_;
    report.model.offset_ns = saved_.toReference(raw) - raw;
    report.model.at_ns = raw;
    report.model.bound_ns += static_cast<int64_t>(static_cast<double>(raw - saved_.at_ns) * kRestartPpm / 1e6);
    return report;
  }
  report.model.method = "system clock";
  report.model.offset_ns = unixClock() - raw;
  return report;
}

void ClockKeeper::loop() {
  std::chrono::steady_clock::time_point saved_at{};
  std::unique_lock lock(mutex_);
  while (!stop_) {
    hurry_ = false;
    const uint64_t round = ++round_;
    answer_ = exchanges() ? askMaster(lock) : askSource(lock);
    done_ = round;
    changed_.notify_all();
    if (const auto now = std::chrono::steady_clock::now(); (client_ || !exchanges()) && now - saved_at > kSavePeriod) {
      saved_at = now;
      lock.unlock();
      save();
      lock.lock();
    }
    const bool fast = client_ && fit_.exchanges() < kFastExchanges;
    const bool rare = source_.kind == sync::Source::Kind::ntp && fit_.exchanges() >= kFastReadings;
    changed_.wait_for(lock,
                      fast   ? kFastPeriod
                      : rare ? std::chrono::milliseconds(kNtpPeriod)
                             : kPeriod,
                      [&] { return stop_ || hurry_; });
  }
}

void ClockKeeper::save() const {
  const ClockReport report = now();
  if (!report.model.valid()) return;
  Result<OutputFile> out = OutputFile::create(file_);
  if (!out) return;
  const sync::ClockModel& m = report.model;
  std::string id;
  {
    std::lock_guard lock(mutex_);
    id = reference_;
  }
  char text[400];
  std::snprintf(text, sizeof text, "%s %lld %lld %.9f %lld %.64s\n", access::kernelBootId().c_str(),
                static_cast<long long>(m.at_ns), static_cast<long long>(m.offset_ns), m.drift_ppm,
                static_cast<long long>(m.bound_ns), id.c_str());
  if (out->write(text)) (void)out->commit();
}

void ClockKeeper::load() {
  std::ifstream in(file_);
  std::string boot;
  sync::ClockModel m;
  m.method = sync::sourceName(source_.kind);
  if (in >> boot >> m.at_ns >> m.offset_ns >> m.drift_ppm >> m.bound_ns && boot == access::kernelBootId()) {
    saved_ = m;
    in >> reference_;
  }
}

}  // namespace tracesmith::cluster
