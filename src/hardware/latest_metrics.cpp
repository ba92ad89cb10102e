#include "base/clock.hpp"
#include "hardware/latest.hpp"

namespace tracesmith::hardware {
namespace {

struct Name {
  std::string name;
  double scale = 1;
};

/// Prometheus wants base units at the end of a name, ratios instead of percent, and _total on counters.
Name prometheusName(const MetricInfo& metric) {
  static constexpr struct {
    const char *ours, *theirs;
    double scale;
  } kUnits[] = {{"_percent", "_ratio", 0.01}, {"_mhz", "_hertz", 1e6}, {"_ns", "_seconds", 1e-9}};
  Name out{"tracesmith_" + metric.name};
  for (const auto& u : kUnits)
    if (metric.name.ends_with(u.ours)) {
      out.name = out.name.substr(0, out.name.size() - std::string_view(u.ours).size()) + u.theirs;
      out.scale = u.scale;
    }
  if (metric.name == "gpu_xid") out.name = "tracesmith_gpu_xid_errors";
  if (metric.name == "host_kernel_log") out.name = "tracesmith_host_kernel_log_lines";
  if (metric.kind != MetricKind::gauge) out.name += "_total";
  return out;
}

/// What the part of a metric is.
const char* partLabel(const MetricInfo& m) {
  const std::string& n = m.name;
  if (n == "host_cpu_busy_percent") return "cpu";
  if (n == "host_load_average") return "window";
  if (n.starts_with("host_disk")) return "disk";
  if (n.starts_with("host_network")) return "interface";
  if (n.starts_with("rdma")) return "port";
  if (n.starts_with("collector")) return "collector";
  if (n == "gpu_process_memory_bytes") return "pid";
  if (n == "gpu_engine_busy_percent") return "engine";
  if (n == "gpu_throttled_ns") return "reason";
  if (n.starts_with("gpu_nvlink")) return "link";
  return "part";
}

/// Of counters of errors the part is where, a blank, and which kind.
void addPart(MetricLabels& labels, const MetricInfo& m, const std::string& part) {
  if (part.empty()) return;
  const size_t blank = m.name == "gpu_nvlink_errors" ? part.rfind(' ') : part.find(' ');
  if (!m.name.ends_with("_errors") || blank == std::string::npos) {
    labels.emplace_back(partLabel(m), part);
    return;
  }
  labels.emplace_back(partLabel(m), part.substr(0, blank));
  labels.emplace_back("kind", part.substr(blank + 1));
}

MetricLabels gpuLabel(int32_t device) {
  if (device < 0) return {};
  return {{"gpu", std::to_string(device)}};
}

}  // namespace

MetricSet metricsOf(const Latest::State& state, int64_t stale_ns) {
  MetricSet out;
  const int64_t now = rawClock();
  const MetricInfo* metric = nullptr;
  Name name;
  for (const Latest::Value& v : state.values) {
    if (v.metric->kind == MetricKind::event) continue;
    const bool lasting = v.metric->rate == Rate::rare || v.metric->name == "gpu_up";
    if (now - v.ts_ns > (lasting ? 30 * stale_ns : stale_ns)) continue;
    if (v.metric != metric) {  // values are in the order of their metrics
      metric = v.metric;
      name = prometheusName(*metric);
      out.begin(name.name, metric->kind == MetricKind::counter ? MetricType::counter : MetricType::gauge, metric->help);
    }
    MetricLabels labels = gpuLabel(v.device);
    if (const Gpu* gpu = v.device >= 0 ? state.inventory.gpu(v.device) : nullptr; gpu && gpu->simulated)
      labels.emplace_back("simulated", "true");
    addPart(labels, *metric, v.part);
    out.value(std::move(labels), v.value * name.scale);
  }
  // Events are counted: a line of a log, or an XID, would be a label without end.
  for (Metric event : {Metric::gpu_xid, Metric::host_kernel_log}) {
    std::map<int32_t, double> by_device;
    for (const Latest::Value& v : state.values)
      if (v.metric == &metricInfo(event)) by_device[v.device] += static_cast<double>(v.events);
    if (by_device.empty()) continue;
    out.begin(prometheusName(metricInfo(event)).name, MetricType::counter, metricInfo(event).help);
    for (const auto& [device, count] : by_device) out.value(gpuLabel(device), count);
  }
  if (!state.inventory.gpus.empty())
    out.begin("tracesmith_gpu_info", MetricType::gauge, "What the GPU is; join with the other metrics on gpu.");
  for (const Gpu& g : state.inventory.gpus)
    out.value({{"gpu", std::to_string(g.index)},
               {"name", g.name},
               {"vendor", g.vendor},
               {"uuid", g.uuid},
               {"pci", g.pci},
               {"simulated", g.simulated ? "true" : "false"}},
              1);
  out.begin("tracesmith_collector_gap", MetricType::gauge, "1 while a collector returns no data, with the cause.");
  for (const Gap& g : state.gaps) out.value({{"collector", g.source}, {"cause", g.cause}}, 1);
  return out;
}

}  // namespace tracesmith::hardware
