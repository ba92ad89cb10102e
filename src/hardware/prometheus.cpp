#include <cmath>

#include "base/clock.hpp"
#include "base/text.hpp"
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

void label(std::string& out, const char* key, std::string_view value, bool& first) {
  out += first ? "{" : ",";
  first = false;
  out += key;
  out += "=\"";
  std::string clean;
  appendUtf8(clean, value);
  for (char c : clean) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  out += '"';
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
void partLabels(std::string& out, const MetricInfo& m, const std::string& part, bool& first) {
  if (part.empty()) return;
  const size_t blank = m.name == "gpu_nvlink_errors" ? part.rfind(' ') : part.find(' ');
  if (!m.name.ends_with("_errors") || blank == std::string::npos) {
    label(out, partLabel(m), part, first);
    return;
  }
  label(out, partLabel(m), part.substr(0, blank), first);
  label(out, "kind", part.substr(blank + 1), first);
}

void number(std::string& out, double v) {
  if (std::isfinite(v))
    appendJsonNumber(out, v);
  else
    out += "NaN";
}

}  // namespace

std::string prometheusText(const Latest::State& state, int64_t stale_ns) {
  std::string out;
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
      out += "# HELP " + name.name + " " + metric->help + "\n# TYPE " + name.name +
             (metric->kind == MetricKind::counter ? " counter\n" : " gauge\n");
    }
    out += name.name;
    bool first = true;
    if (v.device >= 0) label(out, "gpu", std::to_string(v.device), first);
    if (const Gpu* gpu = v.device >= 0 ? state.inventory.gpu(v.device) : nullptr; gpu && gpu->simulated)
      label(out, "simulated", "true", first);
    partLabels(out, *metric, v.part, first);
    out += first ? " " : "} ";
    number(out, v.value * name.scale);
    out += '\n';
  }
  // Events are counted: a line of a log, or an XID, would be a label without end.
  for (Metric event : {Metric::gpu_xid, Metric::host_kernel_log}) {
    std::map<int32_t, double> by_device;
    for (const Latest::Value& v : state.values)
      if (v.metric == &metricInfo(event)) by_device[v.device] += static_cast<double>(v.events);
    if (by_device.empty()) continue;
    name = prometheusName(metricInfo(event));
    out += "# HELP " + name.name + " " + metricInfo(event).help + "\n# TYPE " + name.name + " counter\n";
    for (const auto& [device, count] : by_device) {
      out += name.name;
      bool first = true;
      if (device >= 0) label(out, "gpu", std::to_string(device), first);
      out += first ? " " : "} ";
      number(out, count);
      out += '\n';
    }
  }
  if (!state.inventory.gpus.empty())
    out +=
        "# HELP tracesmith_gpu_info What the GPU is; join with the other metrics on gpu.\n"
        "# TYPE tracesmith_gpu_info gauge\n";
  for (const Gpu& g : state.inventory.gpus) {
    out += "tracesmith_gpu_info";
    bool first = true;
    label(out, "gpu", std::to_string(g.index), first);
    label(out, "name", g.name, first);
    label(out, "vendor", g.vendor, first);
    label(out, "uuid", g.uuid, first);
    label(out, "pci", g.pci, first);
    label(out, "simulated", g.simulated ? "true" : "false", first);
    out += "} 1\n";
  }
  out +=
      "# HELP tracesmith_collector_gap 1 while a collector returns no data, with the cause.\n# TYPE "
      "tracesmith_collector_gap gauge\n";
  for (const Gap& g : state.gaps) {
    out += "tracesmith_collector_gap";
    bool first = true;
    label(out, "collector", g.source, first);
    label(out, "cause", g.cause, first);
    out += "} 1\n";
  }
  return out;
}

}  // namespace tracesmith::hardware
