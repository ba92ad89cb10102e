// Every endpoint, declared once.
#include <algorithm>

#include "base/text.hpp"
#include "server/app.hpp"

namespace tracesmith::server {
namespace {

using access::Role;
constexpr Role kOpen = Role::kNone, kViewer = Role::kViewer, kOperator = Role::kOperator;

const Parameter kName{"name", "string", false, "name of the session: letters, digits, . _ -"};
const Parameter kLast{"last_s", "number", false, "also the seconds before now"};
const Parameter kFrom{"from", "integer", false, "ns after the origin"},
    kTo{"to", "integer", false, "ns after the origin"};
const Parameter kTrace{"trace", "string", false, "id of a trace"};
const Parameter kTracks{"tracks", "string", false, "ids with commas; all if it is not given"};
const Parameter kDuration{"duration_s", "number", false, "ends after so many seconds"};

}  // namespace

const std::vector<Route>& routes() {
  static const std::vector<Route> kRoutes = {
      // Open: a browser has no token before the page asks for one, and probes of an orchestrator have none.
      {"GET", "/", kOpen, "The page for a browser, this list for a program", {}, &App::root},
      {"GET", "/api/v1/health", kOpen, "Whether the server answers", {}, &App::health},
      {"GET", "/api/v1/ready", kOpen, "Whether it can do its work: 503 if not", {}, &App::ready},
      {"GET", "/api/v1/openapi.json", kOpen, "This document", {}, &App::openapi},

      {"GET", "/api/v1/info", kViewer, "What this server is, and your role", {}, &App::info},
      {"GET", "/api/v1/schema", kViewer, "Tables and columns, for SQL", {}, &App::schema},
      {"GET", "/api/v1/nodes", kViewer, "Nodes, their GPUs, clocks and losses", {}, &App::nodes},
      {"GET", "/api/v1/nodes/{node}/clock", kViewer, "A node's clock over the last day", {}, &App::clock},
      {"GET", "/api/v1/sessions", kViewer, "Sessions", {}, &App::sessions},
      {"POST",
       "/api/v1/sessions",
       kOperator,
       "Start a session",
       {kName, kLast, kDuration, {"freq_ms", "number", false, "telemetry every so many ms"}},
       &App::startSession},
      {"POST", "/api/v1/sessions/{id}/stop", kOperator, "Stop a session", {}, &App::stopSession},
      {"GET", "/api/v1/devices", kViewer, "GPUs", {}, &App::devices},
      {"GET", "/api/v1/topology", kViewer, "GPUs and their links, as a trace has them", {kTrace}, &App::topology},
      {"GET", "/api/v1/topology.svg", kViewer, "The same as a picture", {kTrace}, &App::topologyPicture},
      {"GET", "/api/v1/hang", kViewer, "Whether the job stands still, and who is missing", {}, &App::hang},
      {"GET", "/api/v1/metrics/names", kViewer, "Metrics there are", {kTrace}, &App::metricNames},
      {"GET",
       "/api/v1/metrics/series",
       kViewer,
       "A metric over time: the last hour, or a trace's",
       {{"metric", "string", true, "name"},
        {"node", "string", false, "nodes, with commas"},
        {"gpu", "string", false, "GPU indexes, with commas"},
        {"from", "string", false, "Unix ns"},
        {"to", "string", false, "Unix ns"},
        {"points", "integer", false, "at most, 1000"},
        kTrace},
       &App::metricSeries},
      {"GET", "/metrics", kViewer, "The cluster for Prometheus", {}, &App::prometheus},
      {"GET", "/api/v1/metrics/latest", kViewer, "The newest value of every metric", {}, &App::metricsLatest},
      {"GET",
       "/api/v1/events",
       kViewer,
       "Server-sent events: status and metrics each second, alerts",
       {{"token", "string", false, "instead of the header, which EventSource cannot send"}},
       &App::events},

      {"GET", "/api/v1/traces", kViewer, "What has a timeline: sessions, or the file", {}, &App::traceList},
      {"GET", "/api/v1/traces/{id}/timeline", kViewer, "Its tracks; 202 while it is prepared", {}, &App::timeline},
      {"GET",
       "/api/v1/traces/{id}/tiles",
       kViewer,
       "What tracks did in a window: slices or buckets",
       {{"from", "integer", false, "ns after the origin"},
        {"to", "integer", false, "ns after the origin"},
        {"width", "integer", true, "buckets, at most 4096"},
        {"tracks", "string", true, "ids with commas, at most 256"}},
       &App::tiles},
      {"GET",
       "/api/v1/traces/{id}/events/{row}",
       kViewer,
       "Everything about one row; its flow and collective",
       {},
       &App::traceEvent},
      {"GET", "/api/v1/traces/{id}/stats", kViewer, "Sums by name and type", {kFrom, kTo, kTracks}, &App::traceStats},
      {"GET",
       "/api/v1/traces/{id}/search",
       kViewer,
       "Rows by a part of their name",
       {{"q", "string", true, "part of a name, any case"}, {"limit", "integer", false, "hits, 200"}},
       &App::traceSearch},
      {"GET",
       "/api/v1/traces/{id}/analysis",
       kViewer,
       "As tracesmith analyze --json; 202 while it runs",
       {},
       &App::traceAnalysis},
      {"GET",
       "/api/v1/traces/{id}/export",
       kViewer,
       "Download",
       {{"format", "string", true, "perfetto, chrome or sbt"}, kFrom, kTo},
       &App::traceExport},
      {"POST",
       "/api/v1/query",
       kViewer,
       "SQL: one reading statement",
       {{"sql", "string", true, "DuckDB's dialect"},
        {"trace", "string", false, "id of a session"},
        {"format", "string", false, "json, csv or arrow"},
        {"max_rows", "number", false, "10000"},
        {"timeout_s", "number", false, "30"}},
       &App::query},

      {"GET", "/status", kViewer, "State, with the sessions that record", {}, &App::status},
      {"GET", "/clients", kViewer, "Nodes and their GPUs", {}, &App::clients},
      {"GET", "/metrics/latest", kViewer, "The newest metrics of all nodes", {}, &App::latest},
      {"GET", "/profiling/sessions", kViewer, "All sessions", {}, &App::profilingSessions},
      {"POST",
       "/profiling/start",
       kOperator,
       "Start a session",
       {kName, {"freq", "number", false, "telemetry every so many ms"}},
       &App::profilingStart},
      {"POST", "/profiling/stop", kOperator, "Stop the session of that name, or all", {kName}, &App::profilingStop},
      {"POST",
       "/profiling/record",
       kOperator,
       "Record the next seconds, the last ones, or both",
       {kName, kLast, kDuration},
       &App::profilingRecord},
  };
  return kRoutes;
}

std::string openApi() {
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("openapi", "3.0.3").key("info").beginObject();
  w.field("title", "TraceSmith").field("version", TRACESMITH_VERSION).endObject();
  w.key("components").beginObject().key("securitySchemes").beginObject().key("token").beginObject();
  w.field("type", "http").field("scheme", "bearer").endObject().endObject();
  w.key("schemas").beginObject().key("Error").beginObject().field("type", "object").key("properties").beginObject();
  w.key("error").beginObject().field("type", "object").key("properties").beginObject();
  for (const char* name : {"code", "message"}) w.key(name).beginObject().field("type", "string").endObject();
  w.endObject().endObject().endObject().endObject().endObject().endObject();
  w.key("paths").beginObject();
  std::vector<std::string> done;
  for (const Route& route : routes()) {
    if (std::find(done.begin(), done.end(), route.path) != done.end()) continue;
    done.emplace_back(route.path);
    w.key(route.path).beginObject();
    for (const Route& r : routes()) {
      if (std::string_view(r.path) != route.path) continue;
      const bool post = std::string_view(r.method) == "POST";
      w.key(post ? "post" : "get").beginObject().field("summary", r.summary);
      if (r.role != kOpen) {
        w.key("security").beginArray().beginObject().key("token").beginArray().endArray().endObject().endArray();
        w.field("description", std::string("Needs the role ") + access::roleName(r.role) + ".");
      }
      w.key("parameters").beginArray();
      const std::string_view path = r.path;
      for (size_t at = path.find('{'); at != std::string_view::npos; at = path.find('{', at + 1)) {
        const size_t end = path.find('}', at);
        w.beginObject().field("name", path.substr(at + 1, end - at - 1)).field("in", "path").field("required", true);
        w.key("schema").beginObject().field("type", "string").endObject().endObject();
      }
      if (!post)
        for (const Parameter& p : r.parameters) {
          w.beginObject().field("name", p.name).field("in", "query").field("required", p.required);
          w.field("description", p.doc).key("schema").beginObject().field("type", p.type).endObject().endObject();
        }
      w.endArray();
      if (post) {
        w.key("requestBody").beginObject().key("content").beginObject().key("application/json").beginObject();
        w.key("schema").beginObject().field("type", "object").key("properties").beginObject();
        for (const Parameter& p : r.parameters)
          w.key(p.name).beginObject().field("type", p.type).field("description", p.doc).endObject();
        w.endObject();
        std::string required;
        JsonWriter names(required);
        names.beginArray();
        for (const Parameter& p : r.parameters)
          if (p.required) names.value(p.name);
        names.endArray();
        if (required != "[]") w.key("required").raw(required);
        w.endObject().endObject().endObject().endObject();
      }
      w.key("responses").beginObject().key("default").beginObject();
      w.field("description", "an error: one shape for all").key("content").beginObject();
      w.key("application/json").beginObject().key("schema").beginObject();
      w.field("$ref", "#/components/schemas/Error").endObject().endObject().endObject().endObject();
      w.key("200").beginObject().field("description", "docs/http-api.md says what is in it").endObject().endObject();
      w.endObject();
    }
    w.endObject();
  }
  w.endObject().endObject();
  return text;
}

}  // namespace tracesmith::server
