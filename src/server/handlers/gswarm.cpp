// The HTTP API of gswarm, in its words: clients are our nodes, profiling is a session.
#include <optional>

#include "base/text.hpp"
#include "model/travel_json.hpp"
#include "server/handlers/handlers.hpp"
#include "server/http/fields.hpp"
#include "trace/export/frames.hpp"

namespace tracesmith::server {
namespace {

double seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

void writeProfiling(JsonWriter& w, const cluster::SessionInfo& s) {
  w.beginObject()
      .field("name", s.name)
      .field("session_id", s.id)
      .field("is_active", s.state == model::SessionState::recording);
  w.field("state", nameOf(s.state)).field("start_time", seconds(s.start_ns)).key("end_time");
  s.end_ns ? w.value(seconds(s.end_ns)) : w.null();
  w.field("freq", static_cast<int64_t>(s.freq_ms)).field("bytes", s.bytes).key("clients").beginArray();
  for (const cluster::SessionNode& n : s.nodes) w.value(n.node);
  w.endArray().endObject();
}

Answer success(const std::string& message, const std::vector<cluster::SessionInfo>& sessions) {
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("success", true).field("message", message);
  if (sessions.size() == 1) w.field("name", sessions[0].name).field("session_id", sessions[0].id);
  w.key("sessions").beginArray();
  for (const cluster::SessionInfo& s : sessions) writeProfiling(w, s);
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

std::optional<double> metric(const model::GpuState& gpu, std::string_view name) {
  for (const model::Metric& m : gpu.metrics)
    if (m.name == name) return m.value;
  return std::nullopt;
}

class GswarmHandlers final : public Handlers {
 public:
  explicit GswarmHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override;

 private:
  Answer status(const Request& r);
  Answer clients(const Request& r);
  Answer latest(const Request& r);
  Answer profilingSessions(const Request& r);
  Answer profilingStart(const Request& r);
  Answer profilingStop(const Request& r);
  Answer profilingRecord(const Request& r);

  const Sources& sources_;
};

std::vector<Route> GswarmHandlers::routes() {
  return {
      {"GET", "/status", kViewer, "State, with the recording sessions", {}, bind(this, &GswarmHandlers::status)},
      {"GET", "/clients", kViewer, "Nodes and their GPUs", {}, bind(this, &GswarmHandlers::clients)},
      {"GET", "/metrics/latest", kViewer, "Latest metrics of all nodes", {}, bind(this, &GswarmHandlers::latest)},
      {"GET", "/profiling/sessions", kViewer, "All sessions", {}, bind(this, &GswarmHandlers::profilingSessions)},
      {"POST",
       "/profiling/start",
       kOperator,
       "Start a session",
       {kName, {"freq", "number", false, "interval of telemetry, in ms"}},
       bind(this, &GswarmHandlers::profilingStart)},
      {"POST",
       "/profiling/stop",
       kOperator,
       "Stop the session of that name, or all",
       {kName},
       bind(this, &GswarmHandlers::profilingStop)},
      {"POST",
       "/profiling/record",
       kOperator,
       "Record the next seconds, the last ones, or both",
       {kName, kLast, kDuration},
       bind(this, &GswarmHandlers::profilingRecord)},
  };
}

Answer GswarmHandlers::status(const Request&) {
  if (!sources_.cluster) return noCluster();
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
  if (!status) return Answer::error(status.status());
  std::string text;
  JsonWriter w(text);
  int64_t connected = 0, unhealthy = 0;
  for (const cluster::NodeStatus& n : (*status)->nodes) {
    connected += n.connected;
    unhealthy += !n.healthy;
  }
  w.beginObject().field("status", "running").field("version", (*status)->version);
  w.key("active_sessions").beginArray();
  bool active = false;
  for (const cluster::SessionInfo& s : (*status)->sessions)
    if (s.state == model::SessionState::recording) {
      writeProfiling(w, s);
      active = true;
    }
  w.endArray().field("is_profiling", active);
  w.field("connected_clients", connected).field("unhealthy_clients", unhealthy);
  w.field("total_sessions", static_cast<uint64_t>((*status)->sessions.size())).endObject();
  return Answer::json(std::move(text));
}

Answer GswarmHandlers::clients(const Request&) {
  if (!sources_.cluster) return noCluster();
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
  if (!status) return Answer::error(status.status());
  std::string text;
  JsonWriter w(text);
  w.beginObject().key("clients").beginArray();
  for (const cluster::NodeStatus& n : (*status)->nodes) {
    w.beginObject().field("client_id", n.node).field("hostname", n.hostname).field("address", n.address);
    w.field("connected", n.connected).field("healthy", n.healthy).key("last_seen_s");
    n.silent_s ? w.value(*n.silent_s) : w.null();
    w.key("gpus").beginArray();
    for (const cluster::DeviceStatus& gpu : n.gpus) {
      w.beginObject().field("gpu_id", trace::frameGpuId(n.node, gpu.index, gpu.name));
      writeFields(w, gpu);
      w.endObject();
    }
    w.endArray().endObject();
  }
  w.endArray().field("total", static_cast<uint64_t>((*status)->nodes.size())).endObject();
  return Answer::json(std::move(text));
}

Answer GswarmHandlers::profilingSessions(const Request&) {
  if (!sources_.cluster) return noCluster();
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
  if (!status) return Answer::error(status.status());
  std::string text;
  JsonWriter w(text);
  w.beginObject().key("sessions").beginArray();
  for (const cluster::SessionInfo& s : (*status)->sessions) writeProfiling(w, s);
  w.endArray().field("total", static_cast<uint64_t>((*status)->sessions.size())).endObject();
  return Answer::json(std::move(text));
}

Answer GswarmHandlers::profilingStart(const Request& r) {
  if (!sources_.cluster) return noCluster();
  Result<Fields> fields = Fields::parse(r.body);
  if (!fields) return Answer::error(fields.status());
  cluster::StartOptions options;
  double freq = 0;
  for (Status s : {fields->text("name", options.name), fields->number("freq", 10, 3600000, freq)})
    if (!s) return Answer::error(s);
  options.freq_ms = static_cast<uint32_t>(freq);
  Result<cluster::SessionInfo> session = sources_.cluster->client().start(options);
  return audited(sources_, r, "start", options.name, session.status(),
                 session ? success("profiling " + session->name, {*session}) : Answer::error(session.status()));
}

Answer GswarmHandlers::profilingStop(const Request& r) {
  if (!sources_.cluster) return noCluster();
  Result<Fields> fields = Fields::parse(r.body);
  if (!fields) return Answer::error(fields.status());
  std::string name;
  if (Status s = fields->text("name", name); !s) return Answer::error(s);
  Result<std::vector<cluster::SessionInfo>> stopped = sources_.cluster->client().stop(name);
  return audited(
      sources_, r, "stop", name, stopped.status(),
      stopped ? success("stopped " + std::to_string(stopped->size()), *stopped) : Answer::error(stopped.status()));
}

/// The last seconds, the next ones, or both: a session that ends by itself.
Answer GswarmHandlers::profilingRecord(const Request& r) {
  if (!sources_.cluster) return noCluster();
  Result<Fields> fields = Fields::parse(r.body);
  if (!fields) return Answer::error(fields.status());
  cluster::StartOptions options;
  for (Status s : {fields->text("name", options.name), fields->number("last_s", 0, 1e6, options.last_s),
                   fields->number("duration_s", 0, 1e8, options.duration_s)})
    if (!s) return Answer::error(s);
  if (options.last_s == 0 && options.duration_s == 0)
    return Answer::error(400, "give duration_s for the next seconds, last_s for the past ones, or both");
  Result<cluster::SessionInfo> session = sources_.cluster->client().start(options);
  return audited(sources_, r, "record", options.name, session.status(),
                 session ? success("recording " + session->name, {*session}) : Answer::error(session.status()));
}

/// Values of /api/v1/metrics/latest in percent and GB/s.
Answer GswarmHandlers::latest(const Request&) {
  if (!sources_.cluster) return noCluster();
  std::string text;
  JsonWriter w(text);
  const auto state = sources_.live.now();
  const cluster::LiveStatus& live = state->live;
  w.beginObject().field("time", static_cast<double>(live.now_ns) / 1e9).key("metrics").beginArray();
  for (const cluster::LiveNode& node : live.nodes)
    for (const model::GpuState& gpu : node.report.gpus) {
      w.beginObject().field("gpu_id", trace::frameGpuId(node.report.node, gpu.index, gpu.name));
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

}  // namespace

std::unique_ptr<Handlers> makeGswarmHandlers(const Sources& sources) {
  return std::make_unique<GswarmHandlers>(sources);
}

}  // namespace tracesmith::server
