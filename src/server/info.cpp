// What this server is, and the page.
#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "server/app.hpp"
#include "server/cluster_json.hpp"
#include "server/page.hpp"
#include "sync/exchange.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith::server {
namespace {

/// Scripts, styles and data from here alone; nobody frames the page.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src "
    "'self'; "
    "connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

const char* typeOf(std::string_view path) {
  static constexpr std::pair<const char*, const char*> kTypes[] = {{".html", "text/html; charset=utf-8"},
                                                                   {".js", "text/javascript; charset=utf-8"},
                                                                   {".css", "text/css; charset=utf-8"},
                                                                   {".svg", "image/svg+xml"},
                                                                   {".png", "image/png"},
                                                                   {".ico", "image/x-icon"},
                                                                   {".json", "application/json"},
                                                                   {".woff2", "font/woff2"},
                                                                   {".map", "application/json"},
                                                                   {".webmanifest", "application/manifest+json"}};
  for (auto [ending, type] : kTypes)
    if (path.ends_with(ending)) return type;
  return "application/octet-stream";
}

const char* kindName(trace::Kind kind) {
  switch (kind) {
    case trace::Kind::Int:
    case trace::Kind::Sum:
      return "BIGINT";
    case trace::Kind::Int32:
      return "INTEGER";
    case trace::Kind::Real:
      return "DOUBLE";
    case trace::Kind::Type:
      return "ENUM";
    default:
      return "VARCHAR";
  }
}

}  // namespace

Answer App::page(const Request& r) {
  Answer answer;
  const std::string_view path = r.path == "/" ? "/index.html" : std::string_view(r.path);
  for (const PageFile& file : pageFiles()) {
    if (file.path != path) continue;
    answer.type = typeOf(path);
    answer.body = r.gzip ? file.gzip : file.bytes;
    if (r.gzip) answer.headers.emplace_back("Content-Encoding", "gzip");
    answer.headers.emplace_back("Vary", "Accept-Encoding");
    answer.headers.emplace_back("Content-Security-Policy", kPolicy);
    answer.headers.emplace_back("X-Frame-Options", "DENY");
    answer.headers.emplace_back("Referrer-Policy", "no-referrer");
    // Names under /assets have a hash of their content.
    answer.headers.emplace_back("Cache-Control",
                                path.starts_with("/assets/") ? "public, max-age=31536000, immutable" : "no-cache");
    return answer;
  }
  if (path != "/index.html") return Answer::error(404, "there is no " + r.path.substr(0, 256) + " here");
  answer.type = "text/plain; charset=utf-8";
  answer.body = std::string("The page was not built into this program: ") + kNoPage +
                ". The API is at /api/v1/info, its description at /api/v1/openapi.json.\n";
  return answer;
}

/// A browser gets the page, a program the description.
Answer App::root(const Request& r) {
  if (r.accept.find("text/html") != std::string::npos) return page(r);
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("name", "TraceSmith").field("version", TRACESMITH_VERSION);
  w.field("mode", cluster() ? "cluster" : "file").field("openapi", "/api/v1/openapi.json").key("endpoints");
  w.beginArray();
  for (const Route& route : routes()) w.value(std::string(route.method) + " " + route.path);
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

Answer App::info(const Request& r) {
  std::string text;
  JsonWriter w(text);
  bool simulated = false;
  int64_t now = sync::unixClock();
  std::string title = cluster() ? "cluster" : std::filesystem::path(trace_path_).filename().string();
  if (cluster()) {
    Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
    if (!status) return Answer::error(status.status());
    now = (*status)->now_ns;
    simulated = std::any_of((*status)->nodes.begin(), (*status)->nodes.end(),
                            [](const cluster::NodeStatus& n) { return n.simulated; });
  } else {
    double progress;
    if (Result<TracePtr> trace = traces_->open("file", progress); trace && *trace)
      simulated = trace::isSimulated((*trace)->timeline().reader());
  }
  w.beginObject().field("version", TRACESMITH_VERSION).field("mode", cluster() ? "cluster" : "file");
  w.field("title", title).field("simulated", simulated).field("role", access::roleName(r.role));
  timeField(w, "now", now).key("notes").beginArray();
  if (simulated) w.value("simulated: no measurement");
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

Answer App::health(const Request&) { return Answer::json("{\"status\":\"ok\"}"); }

Answer App::ready(const Request&) {
  if (!cluster()) return Answer::json("{\"status\":\"ok\"}");
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
  if (!status) return Answer::error(503, status.status().message());
  if (!(*status)->problem.empty()) return Answer::error(503, (*status)->problem);
  return Answer::json("{\"status\":\"ok\"}");
}

Answer App::schema(const Request&) {
  std::string text;
  JsonWriter w(text);
  w.beginObject().key("tables").beginArray();
  for (const trace::TableInfo& table : trace::tables()) {
    w.beginObject().field("name", table.name).field("doc", table.doc).key("columns").beginArray();
    for (const trace::ColumnInfo& c : table.columns) {
      if (c.kind == trace::Kind::Launch) {  // in SQL its fields are columns
        for (const char* name : trace::kLaunchFieldNames)
          w.beginObject().field("name", name).field("type", "INTEGER").field("doc", c.doc).endObject();
        continue;
      }
      w.beginObject().field("name", c.name).field("type", kindName(c.kind)).field("doc", c.doc).endObject();
    }
    w.endArray().endObject();
  }
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

Answer App::openapi(const Request&) { return Answer::json(openApi()); }

}  // namespace tracesmith::server
