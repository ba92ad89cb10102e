#include "server/sources/live_feed.hpp"

#include "model/rate.hpp"
#include "model/travel_json.hpp"

namespace tracesmith::server {
namespace {

constexpr auto kPeriod = std::chrono::seconds(1);
constexpr auto kHeartbeat = std::chrono::seconds(15);
constexpr int64_t kClockPeriodNs = 5'000'000'000;
constexpr size_t kClockPoints = 17280;  // a day

}  // namespace

std::string latestJson(const cluster::LiveStatus& live) {
  model::LatestMetrics answer;
  answer.now_ns = live.now_ns;
  for (const cluster::LiveNode& node : live.nodes) {
    for (const model::GpuState& gpu : node.report.gpus) {
      model::DeviceMetrics& out = answer.devices.emplace_back(
          model::DeviceMetrics{node.report.node, gpu.index, gpu.name, gpu.simulated, node.age_s, {}});
      for (const model::Metric& m : gpu.metrics) out.metrics.emplace_back(m.name, m.value);
    }
    for (const model::ProcessReport& p : node.report.processes) {
      if (p.state != model::ProcessState::running && p.state != model::ProcessState::stopped) continue;
      model::RankMetrics& out = answer.ranks.emplace_back();
      out.node = node.report.node;
      out.pid = p.pid;
      out.rank = p.rank;
      out.role = p.role;
      out.simulated = p.simulated;
      out.step = p.step;
      if (p.step_age_ns) out.step_age_s = static_cast<double>(*p.step_age_ns) / 1e9;
      setRates(out, ratesOf(p));
    }
  }
  return model::toJson(answer);
}

LiveFeed::LiveFeed(ClusterView* cluster) : cluster_(cluster) {
  if (cluster_) follower_ = std::thread([this] { follow(); });
}

void LiveFeed::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (follower_.joinable()) follower_.join();
}

std::shared_ptr<const LiveFeed::State> LiveFeed::now() const {
  std::lock_guard lock(mutex_);
  return state_;
}

std::shared_ptr<const LiveFeed::State> LiveFeed::next(uint64_t seen) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kHeartbeat, [&] { return stop_ || state_->version != seen; });
  return stop_ ? nullptr : state_;
}

std::vector<model::ClockPoint> LiveFeed::clock(const std::string& node) const {
  std::lock_guard lock(mutex_);
  auto it = clocks_.find(node);
  if (it == clocks_.end()) return {};
  return {it->second.begin(), it->second.end()};
}

void LiveFeed::follow() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    Result<std::shared_ptr<const cluster::ClusterStatus>> status = cluster_->status();
    Result<cluster::LiveStatus> live = cluster_->client().live();
    Result<cluster::HangStatus> hang = cluster_->client().hang();
    auto state = std::make_shared<State>();
    const bool known = status && live && hang;
    if (known) {
      state->status_json = model::toJson(**status);
      state->metrics_json = latestJson(*live);
      history_.add(*live);
      state->live = std::move(*live);
      state->hang = std::move(*hang);
    }
    lock.lock();
    if (known) {
      state->version = state_->version + 1;
      state_ = std::move(state);
      remember(**status);
      changed_.notify_all();
    }
    changed_.wait_for(lock, kPeriod, [&] { return stop_; });
  }
}

/// Under mutex_.
void LiveFeed::remember(const cluster::ClusterStatus& status) {
  if (status.now_ns - clock_saved_ns_ < kClockPeriodNs) return;
  clock_saved_ns_ = status.now_ns;
  for (const cluster::NodeStatus& n : status.nodes) {
    if (!n.clock) continue;
    std::deque<model::ClockPoint>& points = clocks_[n.node];
    points.push_back({status.now_ns, n.clock->offset_ns, n.clock->drift_ppm, n.clock->bound_ns});
    if (points.size() > kClockPoints) points.pop_front();
  }
}

}  // namespace tracesmith::server
