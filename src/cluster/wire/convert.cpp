#include "cluster/wire/convert.hpp"

namespace tracesmith::cluster {

void toMessage(const SessionInfo& s, Session& m) {
  m.set_id(s.id);
  m.set_name(s.name);
  m.set_start_ns(s.start_ns);
  m.set_end_ns(s.end_ns);
  m.set_state(s.state);
  m.set_freq_ms(s.freq_ms);
  m.set_bytes(s.bytes);
  m.set_max_bytes(s.max_bytes);
  m.set_max_age_s(s.max_age_s);
  for (const SessionNode& node : s.nodes) {
    NodeProgress& n = *m.add_nodes();
    n.set_node_id(node.node);
    n.set_complete(node.complete);
    n.set_covered_ns(node.covered_ns);
    n.set_healthy(node.healthy);
  }
}

SessionInfo fromMessage(const Session& m) {
  SessionInfo s;
  s.id = m.id();
  s.name = m.name();
  s.start_ns = m.start_ns();
  s.end_ns = m.end_ns();
  s.state = m.state();
  s.freq_ms = m.freq_ms();
  s.bytes = m.bytes();
  s.max_bytes = m.max_bytes();
  s.max_age_s = m.max_age_s();
  for (const NodeProgress& n : m.nodes()) s.nodes.push_back({n.node_id(), n.complete(), n.healthy(), n.covered_ns()});
  return s;
}

void toMessage(const NodeStatus& s, NodeState& m) {
  RegisterNodeRequest& info = *m.mutable_info();
  info.set_node_id(s.node);
  info.set_hostname(s.hostname);
  info.set_version(s.version);
  info.set_boot_id(s.boot_id);
  info.set_gpu_count(static_cast<uint32_t>(s.gpus.size()));
  for (const DeviceStatus& gpu : s.gpus) {
    DeviceInfo& d = *info.add_gpus();
    d.set_device_index(gpu.index);
    d.set_name(gpu.name);
    d.set_total_memory(gpu.memory_bytes);
  }
  m.set_address(s.address);
  m.set_connected(s.connected);
  m.set_healthy(s.healthy);
  m.set_silent_s(s.silent_s);
  m.set_stored_bytes(s.stored_bytes);
  m.set_stored_events(s.stored_events);
  HeartbeatRequest& last = *m.mutable_last();
  ClockState& clock = *last.mutable_clock();
  clock.set_offset_ns(s.clock_offset_ns);
  clock.set_drift_ppm(s.clock_drift_ppm);
  clock.set_bound_ns(s.clock_known ? s.clock_bound_ns : -1);
  clock.set_method(s.clock_method);
  clock.set_faults(s.clock_faults);
  clock.set_delay_ns(s.clock_delay_ns);
  last.set_processes(s.processes);
  last.set_captures(s.captures);
  last.set_records(s.records);
  last.set_losses(s.losses);
  last.set_spool_bytes(s.spool_bytes);
  last.set_problem(s.problem);
}

NodeStatus fromMessage(const HeartbeatRequest& m) {
  NodeStatus s;
  s.node = m.node_id();
  s.clock_known = m.has_clock() && m.clock().bound_ns() >= 0;
  s.clock_offset_ns = m.clock().offset_ns();
  s.clock_drift_ppm = m.clock().drift_ppm();
  s.clock_bound_ns = m.clock().bound_ns();
  s.clock_method = m.clock().method().substr(0, 64);
  s.clock_faults = m.clock().faults();
  s.clock_delay_ns = m.clock().delay_ns();
  s.processes = m.processes();
  s.captures = m.captures();
  s.records = m.records();
  s.losses = m.losses();
  s.spool_bytes = m.spool_bytes();
  s.problem = m.problem().substr(0, 1024);
  return s;
}

NodeStatus fromMessage(const NodeState& m) {
  NodeStatus s = fromMessage(m.last());
  s.node = m.info().node_id();
  s.hostname = m.info().hostname();
  s.version = m.info().version();
  s.boot_id = m.info().boot_id();
  for (const DeviceInfo& d : m.info().gpus()) s.gpus.push_back({d.device_index(), d.name(), d.total_memory()});
  s.address = m.address();
  s.connected = m.connected();
  s.healthy = m.healthy();
  s.silent_s = m.silent_s();
  s.stored_bytes = m.stored_bytes();
  s.stored_events = m.stored_events();
  return s;
}

void toMessage(const LiveEvent& live, pb::TraceEvent& m) {
  const tracesmith::TraceEvent& e = live.event;
  m.set_timestamp(e.timestamp);
  m.set_type(static_cast<uint32_t>(e.type));
  m.set_name(e.name);
  m.set_device_id(e.device_id);
  m.set_stream_id(e.stream_id);
  m.set_correlation_id(e.correlation_id);
  m.set_duration(e.duration);
  m.set_node_id(live.node);
  m.set_rank(live.rank);
  m.set_thread_id(e.thread_id);
  if (e.memory_params) m.set_bytes(e.memory_params->size_bytes);
  for (const auto& [key, value] : e.metadata) (*m.mutable_metadata())[key] = value;
  m.set_lost(live.lost);
}

LiveEvent fromMessage(const pb::TraceEvent& m) {
  LiveEvent live;
  tracesmith::TraceEvent& e = live.event;
  live.node = m.node_id();
  live.rank = m.rank();
  live.lost = m.lost();
  e.timestamp = m.timestamp();
  e.type = static_cast<EventType>(m.type());
  e.name = m.name();
  e.device_id = m.device_id();
  e.stream_id = m.stream_id();
  e.correlation_id = m.correlation_id();
  e.duration = m.duration();
  e.thread_id = m.thread_id();
  if (m.has_bytes()) e.memory_params = MemoryParams{m.bytes(), {}, {}};
  e.metadata.insert(m.metadata().begin(), m.metadata().end());
  return live;
}

void toMessage(const CaptureSpan& span, Capture& m) {
  m.set_id(span.id);
  m.set_start_ns(span.start_ns);
  m.set_end_ns(span.end_ns);
  m.set_freq_ms(span.freq_ms);
}

}  // namespace tracesmith::cluster
