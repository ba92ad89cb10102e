// What changes by the second: written once, sent to every page that listens.
#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "model/travel_json.hpp"
#include "server/app.hpp"
#include "server/cluster_json.hpp"
#include "server/http/limits.hpp"

namespace tracesmith::server {
namespace {

constexpr auto kPeriod = std::chrono::seconds(1);
constexpr auto kHeartbeat = std::chrono::seconds(15);
constexpr int64_t kClockPeriodNs = 5'000'000'000;
constexpr size_t kClockPoints = 17280;  // a day

void writeLatest(std::string& text, const cluster::LiveStatus& live) {
  JsonWriter w(text);
  w.beginObject();
  timeField(w, "now", live.now_ns).key("devices").beginArray();
  for (const cluster::LiveNode& node : live.nodes)
    for (const model::GpuState& gpu : node.report.gpus) {
      w.beginObject().field("node", node.report.node).field("index", static_cast<int64_t>(gpu.index));
      w.field("name", gpu.name).field("simulated", gpu.simulated).field("age_s", node.age_s);
      w.key("metrics").beginObject();
      for (const model::Metric& m : gpu.metrics) {
        w.key(m.name);
        m.value ? w.value(*m.value) : w.null();
      }
      w.endObject().endObject();
    }
  w.endArray().endObject();
}

std::optional<double> metric(const model::GpuState& gpu, std::string_view name) {
  for (const model::Metric& m : gpu.metrics)
    if (m.name == name) return m.value;
  return std::nullopt;
}

}  // namespace

void App::follow() {
  if (!cluster()) return;
  std::unique_lock lock(live_mutex_);
  while (!stop_) {
    lock.unlock();
    Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
    Result<cluster::LiveStatus> live = client_->live();
    Result<cluster::HangStatus> hang = client_->hang();
    std::string text, metrics;
    if (status && live && hang) {
      JsonWriter w(text);
      w.beginObject();
      writeNodes(w, **status);
      writeSessions(w, (*status)->sessions);
      w.endObject();
      writeLatest(metrics, *live);
      history_.add(*live);
    }
    lock.lock();
    if (status && live && hang) {
      live_status_ = std::move(text);
      live_metrics_ = std::move(metrics);
      live_ = std::move(*live);
      hang_ = std::move(*hang);
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
    if (!n.clock) continue;
    std::deque<ClockPoint>& points = clocks_[n.node];
    points.push_back({status.now_ns, n.clock->offset_ns, n.clock->bound_ns, n.clock->drift_ppm});
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
    int64_t last_told = INT64_MIN;  // alerts from before are in /hang
    bool first = true;
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
          const std::vector<model::Alert>& all = hang_.alerts;
          const int64_t told = last_told;
          for (const model::Alert& a : all) {
            last_told = std::max(last_told, a.t_ns);
            if (!first && a.t_ns > told) out += "event: alert\ndata: " + model::toJson(a) + "\n\n";
          }
          first = false;
        }
      }
      if (!sink(out)) return false;
    }
  };
  return answer;
}

Answer App::metricsLatest(const Request&) {
  if (!cluster()) return Answer::json("{\"now\":null,\"devices\":[]}");
  std::string text;
  std::lock_guard lock(live_mutex_);
  writeLatest(text, live_);
  return Answer::json(std::move(text));
}

Answer App::hang(const Request&) {
  if (!cluster()) {
    model::HangVerdict none;
    none.verdict = "this is a recorded trace: nothing runs";
    return Answer::json(model::hangJson(none, {}));
  }
  std::lock_guard lock(live_mutex_);
  return Answer::json(model::hangJson(hang_.verdict, hang_.alerts));
}

/// Requirement 2's words for the same values: percent, and GB/s.
Answer App::latest(const Request&) {
  if (!cluster()) return noCluster();
  std::string text;
  JsonWriter w(text);
  std::lock_guard lock(live_mutex_);
  w.beginObject().field("time", static_cast<double>(live_.now_ns) / 1e9).key("metrics").beginArray();
  for (const cluster::LiveNode& node : live_.nodes)
    for (const model::GpuState& gpu : node.report.gpus) {
      w.beginObject().field("gpu_id", node.report.node + ":" + std::to_string(gpu.index) + ":" + gpu.name);
      auto field = [&](const char* key, std::optional<double> value, double scale = 1) {
        w.key(key);
        value ? w.value(*value * scale) : w.null();
      };
      const std::optional<double> rx = metric(gpu, "gpu_pcie_rx_bytes_per_second");
      const std::optional<double> tx = metric(gpu, "gpu_pcie_tx_bytes_per_second");
      const std::optional<double> link_rx = metric(gpu, "gpu_nvlink_rx_bytes_per_second");
      const std::optional<double> link_tx = metric(gpu, "gpu_nvlink_tx_bytes_per_second");
      auto sum = [](std::optional<double> a, std::optional<double> b) {
        return a && b ? std::optional<double>(*a + *b) : std::nullopt;
      };
      field("gpu_util", metric(gpu, "gpu_utilization_percent"));
      field("gpu_memory", metric(gpu, "gpu_memory_used_percent"));
      field("dram_bandwidth", sum(rx, tx), 1e-9);
      field("dram_bandwidth_rx", rx, 1e-9);
      field("dram_bandwidth_tx", tx, 1e-9);
      field("gpu_bandwidth", sum(link_rx, link_tx), 1e-9);
      w.field("age_s", node.age_s).endObject();
    }
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

}  // namespace tracesmith::server
