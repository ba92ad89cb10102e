#include "cluster/master/live_watch.hpp"

#include <chrono>
#include <ctime>

#include "cluster/master/master.hpp"

namespace tracesmith::cluster {

using namespace analysis::live;

namespace {

constexpr auto kPeriod = std::chrono::milliseconds(500);
constexpr size_t kMostAlerts = 200;

}  // namespace

LiveWatch::LiveWatch(std::function<int64_t()> now, int64_t silent_ns, Ask ask)
    : now_(std::move(now)), ask_(std::move(ask)), watcher_(silent_ns) {
  thread_ = std::thread([this] { loop(); });
}

LiveWatch::~LiveWatch() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void LiveWatch::take(const std::string& node, NodeReport report) {
  const int64_t now = now_();
  std::lock_guard lock(mutex_);
  report.node = node;  // the connection says who it is
  watcher_.take(report, now);
  nodes_[node] = {std::move(report), now};
}

void LiveWatch::describe(const NodeDescription& node) {
  std::lock_guard lock(mutex_);
  watcher_.describe(node);
}

void LiveWatch::forget(const std::string& node) {
  std::lock_guard lock(mutex_);
  watcher_.forget(node);
  nodes_.erase(node);
}

LiveStatus LiveWatch::live() const {
  LiveStatus live;
  live.now_ns = now_();
  std::lock_guard lock(mutex_);
  for (const auto& [name, node] : nodes_)
    live.nodes.push_back({node.report, static_cast<double>(live.now_ns - node.at_ns) * 1e-9});
  return live;
}

HangStatus LiveWatch::hang() const {
  HangStatus status;
  status.now_ns = now_();
  std::lock_guard lock(mutex_);
  status.verdict = watcher_.verdict();
  stacks_.add(status.verdict);
  status.alerts.assign(alerts_.begin(), alerts_.end());
  return status;
}

LiveWatch::Sums LiveWatch::sums() const {
  const int64_t now = now_();
  std::lock_guard lock(mutex_);
  return {watcher_.totals().ranks(), watcher_.totals().transfers(now), watcher_.slow().costs(), alert_counts_};
}

void LiveWatch::setSink(Sink sink) {
  std::lock_guard lock(mutex_);
  sink_ = std::move(sink);
}

void LiveWatch::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    std::vector<Alert> fresh = watcher_.look(now_());
    HangVerdict verdict = watcher_.verdict();
    if (const std::optional<ProcessQuery> query = stacks_.question(verdict, now_())) {
      lock.unlock();
      const Result<ClusterProcesses> answer = ask_(*query);
      lock.lock();
      if (answer) stacks_.take(*answer);
    }
    stacks_.add(verdict);
    for (Alert& alert : fresh) {
      if (alert.kind == AlertKind::hang) alert.text += whereSentence(verdict);
      alerts_.push_back(alert);
      ++alert_counts_[alert.kind];
      if (alerts_.size() > kMostAlerts) alerts_.pop_front();
    }
    if (!fresh.empty() && sink_) {
      const Sink sink = sink_;
      lock.unlock();
      for (const Alert& alert : fresh) sink(alert, verdict);
      lock.lock();
    }
    stopped_.wait_for(lock, kPeriod, [&] { return stop_; });
  }
}

Result<SessionInfo> freeze(Master& master, double last_s) {
  const auto seconds = static_cast<std::time_t>(master.referenceNow() / 1'000'000'000);
  std::tm tm{};
  ::gmtime_r(&seconds, &tm);
  char name[40];
  std::strftime(name, sizeof name, "hang-%Y%m%d-%H%M%S", &tm);
  StartOptions options;
  options.name = name;
  options.last_s = last_s;
  // Whoever analyzes it has only this to tell a hang from a slow operation: it must be seen to last.
  options.duration_s = 2;
  return master.start(options);
}

}  // namespace tracesmith::cluster
