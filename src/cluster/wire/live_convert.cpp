#include "cluster/wire/live_convert.hpp"

#include <algorithm>

namespace tracesmith::cluster {

using namespace analysis::live;

namespace {

// No honest report has more: what comes over the network is bounded.
constexpr int kMostGpus = 1024, kMostProcesses = 1024, kMostComms = 1024, kMostOperations = 256, kMostSteps = 256,
              kMostOfComm = 128;
constexpr size_t kMostText = 128;

template <typename Messages, typename Visit>
void each(const Messages& messages, int most, Visit visit) {
  for (int i = 0; i < std::min(most, messages.size()); ++i) visit(messages.Get(i));
}

std::string text(const std::string& s) { return s.substr(0, kMostText); }

void toMessage(const CommState& c, LiveCommunicator& m) {
  m.set_comm(c.comm);
  m.set_name(c.name);
  m.set_group_rank(c.group_rank);
  m.set_size(c.size);
  m.set_in_flight(c.in_flight);
  for (const OpProgress& o : c.ops) {
    LiveProgress& p = *m.add_ops();
    p.set_op(o.op);
    p.set_entered(o.entered);
    if (o.completed) p.set_completed(*o.completed);
    if (o.peer >= 0) p.set_peer(o.peer);
  }
  for (const Transfers& t : c.transfers) {
    LiveTransfers& out = *m.add_transfers();
    out.set_op(t.op);
    out.set_bytes(t.bytes);
    out.set_count(t.count);
    out.set_shortest_ns(t.shortest_ns);
    out.set_total_ns(t.total_ns);
    if (t.peer >= 0) out.set_peer(t.peer);
  }
}

CommState fromMessage(const LiveCommunicator& m) {
  CommState c;
  c.comm = m.comm();
  c.name = text(m.name());
  c.group_rank = m.group_rank();
  c.size = m.size();
  c.in_flight = m.in_flight();
  each(m.ops(), kMostOfComm, [&](const LiveProgress& p) {
    OpProgress o{text(p.op()), p.entered(), {}, -1};
    if (p.has_completed()) o.completed = p.completed();
    if (p.has_peer()) o.peer = p.peer();
    c.ops.push_back(std::move(o));
  });
  each(m.transfers(), kMostOfComm, [&](const LiveTransfers& t) {
    c.transfers.push_back(
        {text(t.op()), t.bytes(), t.count(), t.shortest_ns(), t.total_ns(), t.has_peer() ? t.peer() : -1});
  });
  return c;
}

void toMessage(const ProcessReport& p, LiveProcess& m) {
  m.set_pid(p.pid);
  m.set_rank(p.rank);
  m.set_world_size(p.world_size);
  m.set_local_rank(p.local_rank);
  m.set_state(static_cast<uint32_t>(p.state));
  m.set_simulated(p.simulated);
  m.set_activity(p.activity);
  m.set_missed(p.missed);
  if (p.quiet_ns) m.set_quiet_ns(*p.quiet_ns);
  m.set_longest_wait_ns(p.longest_wait_ns);
  if (p.cpu_share) m.set_cpu_share(*p.cpu_share);
  if (p.io_bytes_per_s) m.set_io_bytes_per_s(*p.io_bytes_per_s);
  if (p.step) m.set_step(*p.step);
  if (p.step_age_ns) m.set_step_age_ns(*p.step_age_ns);
  for (const StepTime& s : p.steps) {
    LiveStep& out = *m.add_steps();
    out.set_step(s.step);
    out.set_duration_ns(s.duration_ns);
    out.set_comm_ns(s.comm_ns);
  }
  for (const CommState& c : p.comms) toMessage(c, *m.add_comms());
  for (const InFlight& f : p.in_flight) {
    LiveOperation& out = *m.add_in_flight();
    out.set_op(f.op);
    out.set_comm(f.comm);
    out.set_seq(f.seq);
    out.set_peer(f.peer);
    out.set_bytes(f.bytes);
    out.set_stream(f.stream);
    out.set_before(f.before);
    out.set_age_ns(f.age_ns);
    out.set_wait_ns(f.wait_ns);
  }
}

ProcessReport fromMessage(const LiveProcess& m) {
  ProcessReport p;
  p.pid = m.pid();
  p.rank = m.rank();
  p.world_size = m.world_size();
  p.local_rank = m.local_rank();
  p.state = m.state() <= static_cast<uint32_t>(ProcessState::ended) ? static_cast<ProcessState>(m.state())
                                                                    : ProcessState::running;
  p.simulated = m.simulated();
  p.activity = m.activity();
  p.missed = m.missed();
  if (m.has_quiet_ns()) p.quiet_ns = m.quiet_ns();
  p.longest_wait_ns = m.longest_wait_ns();
  if (m.has_cpu_share()) p.cpu_share = m.cpu_share();
  if (m.has_io_bytes_per_s()) p.io_bytes_per_s = m.io_bytes_per_s();
  if (m.has_step()) p.step = m.step();
  if (m.has_step_age_ns()) p.step_age_ns = m.step_age_ns();
  each(m.steps(), kMostSteps, [&](const LiveStep& s) { p.steps.push_back({s.step(), s.duration_ns(), s.comm_ns()}); });
  each(m.comms(), kMostComms, [&](const LiveCommunicator& c) { p.comms.push_back(fromMessage(c)); });
  each(m.in_flight(), kMostOperations, [&](const LiveOperation& o) {
    p.in_flight.push_back(
        {text(o.op()), o.comm(), o.seq(), o.peer(), o.bytes(), o.stream(), o.before(), o.age_ns(), o.wait_ns()});
  });
  return p;
}

}  // namespace

const std::vector<std::string>& liveMetricNames() {
  static const std::vector<std::string> kNames = {"gpu_utilization_percent",
                                                  "gpu_memory_utilization_percent",
                                                  "gpu_memory_used_bytes",
                                                  "gpu_memory_total_bytes",
                                                  "gpu_memory_used_percent",
                                                  "gpu_power_watts",
                                                  "gpu_power_limit_watts",
                                                  "gpu_temperature_celsius",
                                                  "gpu_memory_temperature_celsius",
                                                  "gpu_sm_clock_mhz",
                                                  "gpu_memory_clock_mhz",
                                                  "gpu_throttle_reasons",
                                                  "gpu_sm_activity_percent",
                                                  "gpu_tensor_activity_percent",
                                                  "gpu_dram_activity_percent",
                                                  "gpu_pcie_tx_bytes_per_second",
                                                  "gpu_pcie_rx_bytes_per_second",
                                                  "gpu_nvlink_tx_bytes_per_second",
                                                  "gpu_nvlink_rx_bytes_per_second",
                                                  "gpu_ecc_corrected",
                                                  "gpu_ecc_uncorrected"};
  return kNames;
}

void toMessage(const NodeReport& report, LiveReport& m) {
  m.set_node_id(report.node);
  m.set_cpu_share(report.cpu_share);
  for (const GpuState& gpu : report.gpus) {
    LiveGpu& g = *m.add_gpus();
    g.set_index(gpu.index);
    g.set_name(gpu.name);
    g.set_simulated(gpu.simulated);
    for (const Metric& metric : gpu.metrics) {
      if (!metric.value) continue;
      LiveMetric& out = *g.add_metrics();
      out.set_name(metric.name);
      out.set_value(*metric.value);
    }
  }
  for (const ProcessReport& p : report.processes) toMessage(p, *m.add_processes());
}

NodeReport fromMessage(const LiveReport& m) {
  NodeReport report;
  report.node = text(m.node_id());
  report.cpu_share = m.cpu_share();
  each(m.gpus(), kMostGpus, [&](const LiveGpu& g) {
    GpuState gpu{g.index(), text(g.name()), g.simulated(), {}};
    for (const std::string& name : liveMetricNames()) gpu.metrics.push_back({name, {}});
    for (const LiveMetric& metric : g.metrics())
      for (Metric& known : gpu.metrics)
        if (known.name == metric.name()) known.value = metric.value();
    report.gpus.push_back(std::move(gpu));
  });
  each(m.processes(), kMostProcesses, [&](const LiveProcess& p) { report.processes.push_back(fromMessage(p)); });
  return report;
}

void toMessage(const HangStatus& status, GetHangResponse& m) {
  const HangVerdict& v = status.verdict;
  m.set_state(static_cast<uint32_t>(v.state));
  m.set_since_ns(v.since_ns);
  m.set_verdict(v.text);
  m.set_confidence(v.confidence);
  m.set_now_ns(status.now_ns);
  for (const StuckOp& s : v.communicators) {
    StuckOperation& out = *m.add_communicators();
    out.set_comm(s.comm);
    out.set_op(s.op);
    out.set_seq(s.seq);
    out.set_ranks(s.ranks);
    out.mutable_entered()->Add(s.entered.begin(), s.entered.end());
    out.mutable_missing()->Add(s.missing.begin(), s.missing.end());
    out.set_bytes(s.bytes);
    out.set_age_s(s.age_s);
    out.set_mismatch(s.mismatch);
  }
  for (const Culprit& c : v.culprits) {
    HangCulprit& out = *m.add_culprits();
    out.set_rank(c.rank);
    out.set_node(c.node);
    out.set_reason(c.reason);
    out.set_confidence(c.confidence);
  }
  for (const Alert& a : status.alerts) {
    LiveAlert& out = *m.add_alerts();
    out.set_t_ns(a.t_ns);
    out.set_kind(nameOf(a.kind));
    out.set_text(a.text);
  }
}

HangStatus fromMessage(const GetHangResponse& m) {
  HangStatus status;
  HangVerdict& v = status.verdict;
  v.state =
      m.state() <= static_cast<uint32_t>(HangState::hang) ? static_cast<HangState>(m.state()) : HangState::unknown;
  v.since_ns = m.since_ns();
  v.text = m.verdict();
  v.confidence = m.confidence();
  status.now_ns = m.now_ns();
  for (const StuckOperation& s : m.communicators())
    v.communicators.push_back({s.comm(),
                               s.op(),
                               s.seq(),
                               s.ranks(),
                               {s.entered().begin(), s.entered().end()},
                               {s.missing().begin(), s.missing().end()},
                               s.bytes(),
                               s.age_s(),
                               s.mismatch()});
  for (const HangCulprit& c : m.culprits()) v.culprits.push_back({c.rank(), c.node(), c.reason(), c.confidence()});
  for (const LiveAlert& a : m.alerts()) status.alerts.push_back({a.t_ns(), alertKindNamed(a.kind()), a.text()});
  return status;
}

}  // namespace tracesmith::cluster
