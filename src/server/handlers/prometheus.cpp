// The cluster for Prometheus: base units, a HELP and a TYPE for each name.
#include "base/prometheus.hpp"
#include "model/rank_metrics.hpp"
#include "server/handlers/handlers.hpp"

namespace tracesmith::server {
namespace {

/// Ratios instead of percent, hertz instead of MHz.
std::pair<std::string, double> baseUnit(const std::string& name) {
  const std::string full = "tracesmith_" + name;
  auto ending = [&](const char* ours, const char* theirs, double scale) {
    return std::pair(full.substr(0, full.size() - std::string_view(ours).size()) + theirs, scale);
  };
  if (full.ends_with("_percent")) return ending("_percent", "_ratio", 0.01);
  if (full.ends_with("_mhz")) return ending("_mhz", "_hertz", 1e6);
  return {full, 1.0};
}

class PrometheusHandlers final : public Handlers {
 public:
  explicit PrometheusHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override;

 private:
  Answer prometheus(const Request& r);

  const Sources& sources_;
};

std::vector<Route> PrometheusHandlers::routes() {
  return {
      {"GET",
       "/metrics",
       kViewer,
       "Metrics of the cluster for Prometheus",
       {},
       bind(this, &PrometheusHandlers::prometheus)},
  };
}

Answer PrometheusHandlers::prometheus(const Request&) {
  PrometheusText t;
  const auto label = PrometheusText::label;
  if (sources_.cluster) {
    Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
    if (!status) return Answer::error(status.status());
    const auto& nodes = (*status)->nodes;
    auto each = [&](const char* name, const char* type, const char* help, auto get) {
      t.begin(name, type, help);
      for (const cluster::NodeStatus& n : nodes) t.value(label("node", n.node), static_cast<double>(get(n)));
    };
    each("tracesmith_node_up", "gauge", "1 while the node is connected and reporting",
         [](const auto& n) { return n.connected && n.healthy ? 1 : 0; });
    t.begin("tracesmith_node_silent_seconds", "gauge", "Seconds since the node last reported");
    for (const cluster::NodeStatus& n : nodes)
      if (n.silent_s) t.value(label("node", n.node), *n.silent_s);
    each("tracesmith_node_gpus", "gauge", "GPUs of the node", [](const auto& n) { return n.gpus.size(); });
    each("tracesmith_node_processes", "gauge", "recorded processes", [](const auto& n) { return n.processes; });
    each("tracesmith_node_records_total", "counter", "records read on the node",
         [](const auto& n) { return n.records; });
    each("tracesmith_node_lost_records_total", "counter", "records lost on the node",
         [](const auto& n) { return n.losses; });
    each("tracesmith_node_spool_bytes", "gauge", "bytes not yet delivered to the master",
         [](const auto& n) { return n.spool_bytes; });
    each("tracesmith_node_sent_bytes_total", "counter", "bytes sent to the master by the node's agent",
         [](const auto& n) { return n.sent_bytes; });
    each("tracesmith_node_stored_bytes", "gauge", "at the master", [](const auto& n) { return n.stored_bytes; });
    t.begin("tracesmith_node_clock_bound_seconds", "gauge", "error bound of the node's clock");
    for (const cluster::NodeStatus& n : nodes)
      if (n.clock) t.value(label("node", n.node), static_cast<double>(n.clock->bound_ns) / 1e9);
    t.begin("tracesmith_sessions", "gauge", "sessions by state");
    std::map<std::string, int> states;
    for (const cluster::SessionInfo& s : (*status)->sessions) ++states[nameOf(s.state)];
    for (const auto& [state, count] : states) t.value(label("state", state), count);
    t.begin("tracesmith_stored_bytes", "gauge", "bytes in the master's store");
    t.value("", static_cast<double>((*status)->stored_bytes));
    t.begin("tracesmith_master_memory_bytes", "gauge", "resident memory of the master");
    t.value("", static_cast<double>((*status)->memory_bytes));

    const auto state = sources_.live.now();
    t.begin("tracesmith_hang", "gauge", "1 while the job hangs");
    t.value("", state->hang.verdict.state == model::HangState::hang ? 1 : 0);
    std::map<std::string, std::vector<std::pair<std::string, double>>> metrics;
    for (const cluster::LiveNode& node : state->live.nodes)
      for (const model::GpuState& gpu : node.report.gpus)
        for (const model::Metric& m : gpu.metrics)
          if (m.value && node.age_s < 5)
            metrics[m.name].emplace_back(label("node", node.report.node) + "," +
                                             label("gpu", std::to_string(gpu.index)) +
                                             (gpu.simulated ? ",simulated=\"true\"" : ""),
                                         *m.value);
    for (const auto& [name, values] : metrics) {
      const auto [base, scale] = baseUnit(name);
      t.begin(base, "gauge", "of each GPU, as the node last reported it");
      for (const auto& [labels, value] : values) t.value(labels, value * scale);
    }
    std::vector<model::RankNow> ranks;
    for (const cluster::LiveNode& node : state->live.nodes)
      for (const model::ProcessReport& p : node.report.processes)
        if (node.age_s < 5 && (p.state == model::ProcessState::running || p.state == model::ProcessState::stopped))
          ranks.push_back(
              {label("node", node.report.node) + "," + model::rankLabels(p.pid, p.rank, p.role, p.simulated), p.step,
               p.step_age_ns, model::ratesOf(p)});
    model::addRankMetrics(t, ranks);
  }
  t.begin("tracesmith_http_requests_total", "counter", "requests answered");
  t.value("", static_cast<double>(sources_.requests.load()));
  t.begin("tracesmith_http_event_streams", "gauge", "open event streams");
  t.value("", static_cast<double>(sources_.live.listeners().load()));
  Answer a;
  a.type = "text/plain; version=0.0.4; charset=utf-8";
  a.body = std::move(t.out);
  return a;
}

}  // namespace

std::unique_ptr<Handlers> makePrometheusHandlers(const Sources& sources) {
  return std::make_unique<PrometheusHandlers>(sources);
}

}  // namespace tracesmith::server
