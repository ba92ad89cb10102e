// What changes by the second: written once, sent to every page that listens.
#include "base/text.hpp"
#include "server/app.hpp"
#include "server/cluster_json.hpp"
#include "server/http/limits.hpp"

namespace tracesmith::server {
namespace {

constexpr auto kPeriod = std::chrono::seconds(1);
constexpr auto kHeartbeat = std::chrono::seconds(15);
constexpr int64_t kClockPeriodNs = 5'000'000'000;
constexpr size_t kClockPoints = 17280;  // a day

}  // namespace

void App::follow() {
  if (!cluster()) return;
  std::unique_lock lock(live_mutex_);
  while (!stop_) {
    lock.unlock();
    Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
    std::string text, metrics;
    if (status) {
      JsonWriter w(text);
      w.beginObject();
      writeNodes(w, **status);
      writeSessions(w, (*status)->sessions);
      w.endObject();
      metrics = metricsLatest({}).body;
    }
    lock.lock();
    if (status) {
      live_status_ = std::move(text);
      live_metrics_ = std::move(metrics);
      remember(**status);
      ++live_version_;
      live_changed_.notify_all();
    }
    live_changed_.wait_for(lock, kPeriod, [&] { return stop_; });
  }
}

/// Under live_mutex_.
void App::remember(const cluster::ClusterStatus& status) {
  if (status.now_ns - clock_saved_ns_ < kClockPeriodNs) return;
  clock_saved_ns_ = status.now_ns;
  for (const cluster::NodeStatus& n : status.nodes) {
    if (!n.clock_known) continue;
    std::deque<ClockPoint>& points = clocks_[n.node];
    points.push_back({status.now_ns, n.clock_offset_ns, n.clock_bound_ns, n.clock_drift_ppm});
    if (points.size() > kClockPoints) points.pop_front();
  }
}

Answer App::events(const Request&) {
  struct Place {  // one of those that listen at a time
    std::atomic<size_t>& count;
    explicit Place(std::atomic<size_t>& c) : count(c) { ++count; }
    ~Place() { --count; }
  };
  auto place = std::make_shared<Place>(event_streams_);
  if (event_streams_ > kEventStreams) return Answer::error(503, "too many pages listen: close one");
  Answer answer;
  answer.type = "text/event-stream";
  answer.headers.emplace_back("Cache-Control", "no-store");
  answer.stream = [this, place](const Sink& sink) {
    uint64_t seen = 0;
    if (!sink(": welcome\n\n")) return false;
    for (;;) {
      std::string out;
      {
        std::unique_lock lock(live_mutex_);
        live_changed_.wait_for(lock, kHeartbeat, [&] { return stop_ || live_version_ != seen; });
        if (stop_) return true;
        if (live_version_ == seen) {
          out = ": still here\n\n";
        } else {
          seen = live_version_;
          out = "event: status\ndata: " + live_status_ + "\n\nevent: metrics\ndata: " + live_metrics_ + "\n\n";
        }
      }
      if (!sink(out)) return false;
    }
  };
  return answer;
}

Answer App::metricsLatest(const Request&) {
  std::string text;
  JsonWriter w(text);
  if (!cluster()) return Answer::json("{\"now\":null,\"devices\":[]}");
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
  if (!status) return Answer::error(status.status());
  w.beginObject();
  timeField(w, "now", (*status)->now_ns).key("devices").beginArray();
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

Answer App::latest(const Request& r) { return metricsLatest(r); }

}  // namespace tracesmith::server
