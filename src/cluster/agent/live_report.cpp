#include "cluster/agent/live_report.hpp"

#include <time.h>

#include <chrono>

#include "base/clock.hpp"
#include "cluster/wire/live_convert.hpp"

namespace tracesmith::cluster {

using namespace analysis::live;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kPeriod = std::chrono::seconds(1);
constexpr int64_t kStaleNs = 15'000'000'000;  // rare metrics come every 10 s
constexpr const char* kPerSecond = "_per_second";

double threadCpuSeconds() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

LiveReporter::LiveReporter(const std::string& node, const std::string& ring_folder, const hardware::Latest& latest,
                           RasWatch* ras)
    : node_(node), rings_(ring_folder, node), latest_(latest), ras_(ras) {
  thread_ = std::thread([this] { loop(); });
}

LiveReporter::~LiveReporter() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

std::optional<NodeReport> LiveReporter::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(newest_, std::nullopt);
}

void LiveReporter::loop() {
  auto next = Clock::now();
  const auto began = next;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    NodeReport report;
    report.node = node_;
    report.gpus = gpus();
    report.processes = rings_.report();
    if (ras_)
      for (ProcessReport& p : ras_->report(report.processes)) report.processes.push_back(std::move(p));
    const double elapsed = std::chrono::duration<double>(Clock::now() - began).count();
    report.cpu_share = elapsed > 0 ? threadCpuSeconds() / elapsed : 0;
    lock.lock();
    newest_ = std::move(report);
    next = std::max(next + kPeriod, Clock::now());
    stopped_.wait_until(lock, next, [&] { return stop_; });
  }
}

std::vector<GpuState> LiveReporter::gpus() const {
  const hardware::Latest::State state = latest_.state();
  std::vector<GpuState> all;
  if (!state.found) return all;
  const int64_t now = rawClock();
  for (const hardware::Gpu& gpu : state.inventory.gpus) {
    GpuState& g = all.emplace_back();
    g.index = static_cast<uint32_t>(gpu.index);
    g.name = gpu.name;
    g.simulated = gpu.simulated;
    for (const std::string& name : liveMetricNames()) g.metrics.push_back({name, {}});
    auto find = [&](const std::string& name) -> std::optional<double>* {
      for (Metric& m : g.metrics)
        if (m.name == name) return &m.value;
      return nullptr;
    };
    for (const hardware::Latest::Value& v : state.values) {
      if (v.device != gpu.index || now - v.ts_ns > kStaleNs) continue;
      if (std::optional<double>* value = find(v.metric->name); value && v.part.empty()) *value = v.value;
      if (v.metric->kind != hardware::MetricKind::counter || v.before_ns == 0 || v.ts_ns <= v.before_ns) continue;
      if (std::optional<double>* rate = find(v.metric->name + kPerSecond))
        *rate = rate->value_or(0) + v.rate();  // of all links together
    }
    const std::optional<double> used = *find("gpu_memory_used_bytes"), total = *find("gpu_memory_total_bytes");
    if (used && total && *total > 0) *find("gpu_memory_used_percent") = 100 * *used / *total;
  }
  return all;
}

}  // namespace tracesmith::cluster
