// The cluster as metrics: what /metrics answers and what is sent to monitoring systems.
#include <map>

#include "cluster/master/master.hpp"
#include "model/rank_metrics.hpp"

namespace tracesmith::cluster {

using analysis::live::RankTotal;

namespace {

constexpr auto kGauge = MetricType::gauge, kCounter = MetricType::counter;
constexpr double kFreshS = 5;  // what a node said earlier is not what it does now

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

void addNodes(MetricSet& m, const ClusterStatus& status) {
  auto each = [&](const char* name, MetricType type, const char* help, auto get) {
    m.begin(name, type, help);
    for (const NodeStatus& n : status.nodes) m.value({{"node", n.node}}, static_cast<double>(get(n)));
  };
  each("tracesmith_node_up", kGauge, "1 while the node is connected and reporting",
       [](const auto& n) { return n.connected && n.healthy ? 1 : 0; });
  m.begin("tracesmith_node_silent_seconds", kGauge, "seconds since the node last reported");
  for (const NodeStatus& n : status.nodes)
    if (n.silent_s) m.value({{"node", n.node}}, *n.silent_s);
  each("tracesmith_node_gpus", kGauge, "GPUs of the node", [](const auto& n) { return n.gpus.size(); });
  each("tracesmith_node_processes", kGauge, "recorded processes", [](const auto& n) { return n.processes; });
  each("tracesmith_node_records_total", kCounter, "records read on the node", [](const auto& n) { return n.records; });
  each("tracesmith_node_lost_records_total", kCounter, "records lost on the node",
       [](const auto& n) { return n.losses; });
  each("tracesmith_node_spool_bytes", kGauge, "bytes not yet delivered to the master",
       [](const auto& n) { return n.spool_bytes; });
  each("tracesmith_node_sent_bytes_total", kCounter, "bytes sent to the master since the agent started",
       [](const auto& n) { return n.sent_bytes; });
  each("tracesmith_node_stored_bytes", kGauge, "bytes of the node in the master's store",
       [](const auto& n) { return n.stored_bytes; });
  m.begin("tracesmith_node_clock_bound_seconds", kGauge, "error bound of the node's clock");
  for (const NodeStatus& n : status.nodes)
    if (n.clock) m.value({{"node", n.node}}, static_cast<double>(n.clock->bound_ns) / 1e9);
  m.begin("tracesmith_sessions", kGauge, "sessions by state");
  std::map<std::string, int> states;
  for (const SessionInfo& s : status.sessions) ++states[nameOf(s.state)];
  for (const auto& [state, count] : states) m.value({{"state", state}}, count);
  m.begin("tracesmith_stored_bytes", kGauge, "bytes in the master's store");
  m.value({}, static_cast<double>(status.stored_bytes));
  m.begin("tracesmith_master_memory_bytes", kGauge, "resident memory of the master");
  m.value({}, static_cast<double>(status.memory_bytes));
  m.begin("tracesmith_master_problem", kGauge, "1 while the master cannot store data");
  m.value({}, status.problem.empty() ? 0 : 1);
}

void addExports(MetricSet& m, const ClusterStatus& status) {
  if (status.exports.empty()) return;
  auto each = [&](const char* name, MetricType type, const char* help, auto get) {
    m.begin(name, type, help);
    for (const ExportStatus& e : status.exports)
      m.value({{"sink", e.sink}, {"address", e.address}}, static_cast<double>(get(e)));
  };
  each("tracesmith_export_sent_total", kCounter, "values and spans that the receiver has taken",
       [](const auto& e) { return e.sent; });
  each("tracesmith_export_retries_total", kCounter, "requests that were repeated",
       [](const auto& e) { return e.retries; });
  each("tracesmith_export_dropped_total", kCounter, "values and spans that were given up",
       [](const auto& e) { return e.dropped; });
  each("tracesmith_export_waiting_bytes", kGauge, "bytes that wait for the receiver",
       [](const auto& e) { return e.waiting_bytes; });
}

void addAlerts(MetricSet& m, const HangStatus& hang, const LiveWatch::Sums& sums) {
  m.begin("tracesmith_hang", kGauge, "1 while the job hangs");
  const bool hangs = hang.verdict.state == HangState::hang;
  m.value({}, hangs ? 1 : 0);
  m.begin("tracesmith_hang_seconds", kGauge, "how long the job has stood still");
  m.value({},
          hangs && hang.verdict.since_ns != 0 ? static_cast<double>(hang.now_ns - hang.verdict.since_ns) * 1e-9 : 0);
  m.begin("tracesmith_hang_culprit", kGauge, "how sure it is that the others wait for this rank, from 0 to 1");
  if (hangs)
    for (const Culprit& c : hang.verdict.culprits) {
      MetricLabels labels;
      if (!c.node.empty()) labels.emplace_back("node", c.node);
      if (c.rank >= 0) labels.emplace_back("rank", std::to_string(c.rank));
      m.value(std::move(labels), c.confidence);
    }
  m.begin("tracesmith_alerts_total", kCounter, "alerts since the master started");
  for (const AlertInfo& kind : alertKinds()) {
    const auto count = sums.alerts.find(kind.kind);
    m.value({{"kind", kind.name}, {"severity", nameOf(kind.severity)}},
            count == sums.alerts.end() ? 0 : static_cast<double>(count->second));
  }
}

void addGpus(MetricSet& m, const LiveStatus& live) {
  std::map<std::string, std::vector<MetricSample>> metrics;
  for (const LiveNode& node : live.nodes)
    for (const GpuState& gpu : node.report.gpus)
      for (const Metric& metric : gpu.metrics) {
        if (!metric.value || node.age_s >= kFreshS) continue;
        MetricLabels labels = {{"node", node.report.node}, {"gpu", std::to_string(gpu.index)}};
        if (gpu.simulated) labels.emplace_back("simulated", "true");
        metrics[metric.name].push_back({std::move(labels), *metric.value});
      }
  for (auto& [name, samples] : metrics) {
    const auto [base, scale] = baseUnit(name);
    m.begin(base, kGauge, "of each GPU, as the node last reported it");
    for (MetricSample& s : samples) m.value(std::move(s.labels), s.value * scale);
  }
}

MetricLabels labelsOf(const std::string& node, int64_t pid, int32_t rank, const std::string& role, bool simulated) {
  MetricLabels labels = {{"node", node}};
  for (auto& label : model::rankLabels(pid, rank, role, simulated)) labels.push_back(std::move(label));
  return labels;
}

void addRanks(MetricSet& m, const LiveStatus& live) {
  std::vector<model::RankNow> ranks;
  MetricSet waits;
  waits.begin("tracesmith_rank_in_flight_seconds", kGauge,
              "how long the rank has waited in the operation that it waits in longest; 0: in none");
  for (const LiveNode& node : live.nodes)
    for (const ProcessReport& p : node.report.processes) {
      if (node.age_s >= kFreshS || (p.state != ProcessState::running && p.state != ProcessState::stopped)) continue;
      const MetricLabels labels = labelsOf(node.report.node, p.pid, p.rank, p.role, p.simulated);
      ranks.push_back({labels, p.step, p.step_age_ns, model::ratesOf(p)});
      int64_t longest = 0;
      for (const InFlight& f : p.in_flight) longest = std::max(longest, f.wait_ns);
      waits.value(labels, static_cast<double>(longest) * 1e-9);
    }
  model::addRankMetrics(m, ranks);
  m.append(std::move(waits));
}

void addSums(MetricSet& m, const LiveWatch::Sums& sums) {
  auto each = [&](const char* name, MetricType type, const char* help, auto get) {
    m.begin(name, type, help);
    for (const RankTotal& r : sums.ranks)
      if (const std::optional<double> value = get(r))
        m.value(labelsOf(r.node, r.pid, r.rank, r.role, r.simulated), *value);
  };
  using Value = std::optional<double>;
  each("tracesmith_rank_step_seconds", kGauge, "how long the rank's last step took",
       [](const RankTotal& r) -> Value { return r.last_step_seconds; });
  each("tracesmith_rank_steps_total", kCounter, "steps of the rank that have ended",
       [](const RankTotal& r) -> Value { return static_cast<double>(r.steps); });
  each("tracesmith_rank_step_seconds_total", kCounter, "how long these steps took in all",
       [](const RankTotal& r) -> Value { return r.step_seconds; });
  each("tracesmith_rank_communication_seconds_total", kCounter, "time in these steps in NCCL's kernels",
       [](const RankTotal& r) -> Value { return r.communication_seconds; });
  auto cost = [&](double analysis::live::SlowDetector::RankCost::*value) {
    return [&sums, value](const RankTotal& r) -> Value {
      const auto found = sums.costs.find({r.node, r.pid});
      return found == sums.costs.end() ? Value() : Value(found->second.*value);
    };
  };
  each("tracesmith_rank_wait_seconds_total", kCounter,
       "time in NCCL's kernels beyond that of the rank that everybody waited for",
       cost(&analysis::live::SlowDetector::RankCost::wait_s));
  each("tracesmith_rank_blame_seconds_total", kCounter,
       "how much later than the median rank it came to its collectives, summed over steps: what it cost the others",
       cost(&analysis::live::SlowDetector::RankCost::late_s));
  auto operations = [&](const char* name, const char* help, auto get) {
    m.begin(name, kCounter, help);
    for (const RankTotal& r : sums.ranks)
      for (const auto& [op, total] : r.operations) {
        MetricLabels labels = labelsOf(r.node, r.pid, r.rank, r.role, r.simulated);
        labels.emplace_back("op", op);
        m.value(std::move(labels), get(total));
      }
  };
  operations("tracesmith_rank_collectives_total", "collectives, sends and receives that have ended",
             [](const auto& t) { return static_cast<double>(t.count); });
  operations("tracesmith_rank_collective_bytes_total", "bytes of their messages",
             [](const auto& t) { return t.bytes; });
  operations("tracesmith_rank_collective_seconds_total", "time in their kernels, waiting for other ranks included",
             [](const auto& t) { return t.seconds; });
  m.begin("tracesmith_collective_bandwidth_bytes_per_second", kGauge,
          "message size over the shortest time of any rank, of the size that the communicator moves most of");
  for (const analysis::live::TransferRate& t : sums.transfers) {
    MetricLabels labels = {{"comm", analysis::live::commName(t.comm)}, {"op", t.op}};
    if (!t.name.empty()) labels.emplace_back("name", t.name);
    if (t.size >= 0) labels.emplace_back("ranks", std::to_string(t.size));
    if (t.simulated) labels.emplace_back("simulated", "true");
    m.value(std::move(labels), t.bytes / t.seconds);
  }
}

}  // namespace

/// Sends metrics and spans to whom the options name.
Status Master::startExports() {
  if (!options_.exports.any() && options_.exports.clickhouse.empty()) return {};
  sink::Options options = options_.exports;
  options.folder = options_.data_dir + "/exports";
  TS_TRY(makePrivateFolder(options.folder));
  if (!options.clickhouse.empty()) {
    Result<std::unique_ptr<ClickHouseFeed>> clickhouse = ClickHouseFeed::start(*store_, options);
    if (!clickhouse) return clickhouse.status();
    std::lock_guard lock(mutex_);
    clickhouse_ = std::move(*clickhouse);
  }
  if (!options.any()) return {};
  Result<std::unique_ptr<sink::Exports>> exports = sink::Exports::start(options, [this] { return metrics(); });
  if (!exports) return exports.status();
  {
    std::lock_guard lock(mutex_);
    exports_ = std::move(*exports);
  }
  if (!exports_->takesSpans()) return {};
  Result<std::unique_ptr<SpanFeed>> spans = SpanFeed::start(*store_, *exports_, options);
  if (!spans) return spans.status();
  spans_ = std::move(*spans);
  return {};
}

/// Whether ClickHouse has all of a segment, or nobody wants it there.
bool Master::delivered(const SegmentInfo& segment) const {
  std::lock_guard lock(mutex_);
  return !clickhouse_ || clickhouse_->has(segment);
}

MetricSet Master::metrics() {
  MetricSet m;
  const ClusterStatus cluster = status();
  const LiveStatus live = watch_->live();
  const LiveWatch::Sums sums = watch_->sums();
  addNodes(m, cluster);
  addExports(m, cluster);
  addAlerts(m, watch_->hang(), sums);
  addGpus(m, live);
  addRanks(m, live);
  addSums(m, sums);
  return m;
}

}  // namespace tracesmith::cluster
