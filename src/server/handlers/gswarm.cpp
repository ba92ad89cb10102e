// The HTTP API of gswarm, in its words: clients are our nodes, profiling is a session.
#include <algorithm>
#include <chrono>
#include <optional>

#include "base/count.hpp"
#include "base/text.hpp"
#include "model/travel_json.hpp"
#include "server/handlers/handlers.hpp"
#include "server/http/fields.hpp"
#include "trace/export/frames.hpp"

namespace tracesmith::server {
namespace {

double seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

int64_t unixNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Intervals of telemetry a session has had.
uint64_t framesOf(const cluster::SessionInfo& s) {
  const int64_t end = s.end_ns ? s.end_ns : unixNow();
  return s.freq_ms ? static_cast<uint64_t>(std::max<int64_t>(0, end - s.start_ns) / (s.freq_ms * 1'000'000ll)) : 0;
}

bool active(const cluster::SessionInfo& s) { return s.state == model::SessionState::recording; }

void writeFile(JsonWriter& w, const char* key, const FramesWriter* frames, const cluster::SessionInfo* s) {
  std::optional<std::string> file;
  if (frames != nullptr && s != nullptr) file = frames->fileOf(*s);
  w.key(key);
  file ? w.value(*file) : w.null();
}

void writeProfiling(JsonWriter& w, const cluster::SessionInfo& s, const FramesWriter* frames) {
  w.beginObject().field("name", s.name).field("session_id", s.id).field("is_active", active(s));
  w.field("state", nameOf(s.state)).field("start_time", seconds(s.start_ns)).key("end_time");
  s.end_ns ? w.value(seconds(s.end_ns)) : w.null();
  w.field("freq", static_cast<int64_t>(s.freq_ms)).field("frame_count", framesOf(s)).field("bytes", s.bytes);
  writeFile(w, "output_file", frames, &s);
  w.key("clients").beginArray();
  for (const cluster::SessionNode& n : s.nodes) w.value(n.node);
  w.endArray().endObject();
}

Answer success(const std::string& message, const std::vector<cluster::SessionInfo>& sessions,
               const FramesWriter* frames) {
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("success", true).field("message", message);
  if (sessions.size() == 1) w.field("name", sessions[0].name).field("session_id", sessions[0].id);
  writeFile(w, "output_file", frames, sessions.size() == 1 ? sessions.data() : nullptr);
  w.key("sessions").beginArray();
  for (const cluster::SessionInfo& s : sessions) writeProfiling(w, s, frames);
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

void writeGpu(JsonWriter& w, const std::string& node, const std::string& hostname, int64_t index,
              const std::string& name) {
  w.beginObject().field("id", trace::frameGpuId(node, index, name)).field("name", name);
  w.field("physical_idx", index).field("hostname", hostname);
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
  const cluster::SessionInfo* first = nullptr;  // of those that record, the oldest
  uint64_t frames = 0;
  w.beginObject().field("status", "running").field("version", (*status)->version);
  w.key("active_sessions").beginArray();
  for (const cluster::SessionInfo& s : (*status)->sessions)
    if (active(s)) {
      writeProfiling(w, s, sources_.frames);
      if (!first || s.start_ns < first->start_ns) first = &s;
      frames = std::max(frames, framesOf(s));
    }
  w.endArray().field("is_profiling", first != nullptr).key("freq");
  first ? w.value(static_cast<int64_t>(first->freq_ms)) : w.null();
  // Telemetry always reads both.
  w.field("enable_bandwidth_profiling", true).field("enable_nvlink_profiling", true);
  writeFile(w, "output_filename", sources_.frames, first);
  w.field("frame_id_counter", frames).key("connected_clients").beginArray();
  uint64_t gpus = 0, unhealthy = 0;
  for (const cluster::NodeStatus& n : (*status)->nodes) {
    unhealthy += !n.healthy;
    if (!n.connected) continue;
    w.value(n.node);
    gpus += n.gpus.size();
  }
  w.endArray().field("unhealthy_clients", unhealthy).field("total_gpus", gpus).key("gpu_info").beginObject();
  for (const cluster::NodeStatus& n : (*status)->nodes) {
    if (!n.connected) continue;
    w.key(n.node).beginArray();
    for (const cluster::DeviceStatus& gpu : n.gpus) {
      writeGpu(w, n.node, n.hostname, gpu.index, gpu.name);
      w.endObject();
    }
    w.endArray();
  }
  w.endObject().field("total_sessions", static_cast<uint64_t>((*status)->sessions.size())).endObject();
  return Answer::json(std::move(text));
}

Answer GswarmHandlers::clients(const Request&) {
  if (!sources_.cluster) return noCluster();
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
  if (!status) return Answer::error(status.status());
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("total_clients", static_cast<uint64_t>((*status)->nodes.size()));
  w.key("clients").beginArray();
  for (const cluster::NodeStatus& n : (*status)->nodes) {
    w.beginObject().field("client_id", n.node).field("hostname", n.hostname).field("address", n.address);
    w.field("gpu_count", static_cast<uint64_t>(n.gpus.size()));
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
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

Answer GswarmHandlers::profilingSessions(const Request&) {
  if (!sources_.cluster) return noCluster();
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
  if (!status) return Answer::error(status.status());
  std::string text;
  JsonWriter w(text);
  const std::vector<cluster::SessionInfo>& all = (*status)->sessions;
  w.beginObject().field("total_sessions", static_cast<uint64_t>(all.size()));
  w.field("active_sessions", static_cast<uint64_t>(std::count_if(all.begin(), all.end(), active)));
  w.key("sessions").beginArray();
  for (const cluster::SessionInfo& s : all) writeProfiling(w, s, sources_.frames);
  w.endArray().endObject();
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
                 session ? success("Profiling started: " + session->name, {*session}, sources_.frames)
                         : Answer::error(session.status()));
}

Answer GswarmHandlers::profilingStop(const Request& r) {
  if (!sources_.cluster) return noCluster();
  Result<Fields> fields = Fields::parse(r.body);
  if (!fields) return Answer::error(fields.status());
  std::string name;
  if (Status s = fields->text("name", name); !s) return Answer::error(s);
  Result<std::vector<cluster::SessionInfo>> stopped = sources_.cluster->client().stop(name);
  Answer answer;
  if (stopped)
    answer = success("Profiling stopped: " + counted(stopped->size(), "session"), *stopped, sources_.frames);
  else if (name.empty() && stopped.status().code() == Code::kNotFound)  // not a failure of the request
    answer = Answer::json(R"({"success":false,"message":"Profiling is not active."})");
  else
    answer = Answer::error(stopped.status());
  return audited(sources_, r, "stop", name, stopped.status(), std::move(answer));
}

/// The last seconds, the next ones, or both: a session that ends by itself.
Answer GswarmHandlers::profilingRecord(const Request& r) {
  if (!sources_.cluster) return noCluster();
  Result<Fields> fields = Fields::parse(r.body);
  if (!fields) return Answer::error(fields.status());
  if (fields->has("app_name"))
    return Answer::error(
        400,
        "times of an application's requests are not recorded here: give the next seconds as duration_s, "
        "the past ones as last_s");
  cluster::StartOptions options;
  for (Status s : {fields->text("name", options.name), fields->number("last_s", 0, 1e6, options.last_s),
                   fields->number("duration_s", 0, 1e8, options.duration_s)})
    if (!s) return Answer::error(s);
  if (options.last_s == 0 && options.duration_s == 0)
    return Answer::error(400, "give duration_s for the next seconds, last_s for the past ones, or both");
  Result<cluster::SessionInfo> session = sources_.cluster->client().start(options);
  return audited(
      sources_, r, "record", options.name, session.status(),
      session ? success("Recording " + session->name, {*session}, sources_.frames) : Answer::error(session.status()));
}

/// Values of /api/v1/metrics/latest in percent and GB/s, node by node.
Answer GswarmHandlers::latest(const Request&) {
  if (!sources_.cluster) return noCluster();
  std::string text;
  JsonWriter w(text);
  const auto state = sources_.live.now();
  const cluster::LiveStatus& live = state->live;
  w.beginObject().field("timestamp", seconds(live.now_ns)).key("client_data").beginObject();
  for (const cluster::LiveNode& node : live.nodes) {
    const std::string& name = node.report.node;
    w.key(name).beginObject().field("timestamp", seconds(live.now_ns) - node.age_s).key("gpus_metrics").beginArray();
    for (const model::GpuState& gpu : node.report.gpus) {
      auto field = [&](const char* key, const char* of, double scale = 1) {
        const std::optional<double> value = metric(gpu, of);
        w.key(key);
        value ? w.value(*value * scale) : w.null();
      };
      w.beginObject().field("gpu_id", trace::frameGpuId(name, gpu.index, gpu.name));
      w.field("physical_idx", static_cast<int64_t>(gpu.index)).field("name", gpu.name);
      field("gpu_util", "gpu_utilization_percent");
      field("mem_util", "gpu_memory_used_percent");
      field("dram_bw_gbps_rx", "gpu_pcie_rx_bytes_per_second", 1e-9);
      field("dram_bw_gbps_tx", "gpu_pcie_tx_bytes_per_second", 1e-9);
      field("nvlink_bw_gbps_rx", "gpu_nvlink_rx_bytes_per_second", 1e-9);
      field("nvlink_bw_gbps_tx", "gpu_nvlink_tx_bytes_per_second", 1e-9);
      w.endObject();
    }
    w.endArray().endObject();
  }
  w.endObject().endObject();
  return Answer::json(std::move(text));
}

}  // namespace

std::unique_ptr<Handlers> makeGswarmHandlers(const Sources& sources) {
  return std::make_unique<GswarmHandlers>(sources);
}

}  // namespace tracesmith::server
