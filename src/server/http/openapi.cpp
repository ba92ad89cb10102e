#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "server/http/route.hpp"

namespace tracesmith::server {

std::string openApi(const std::vector<Route>& routes) {
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
  for (const Route& route : routes) {
    if (std::find(done.begin(), done.end(), route.path) != done.end()) continue;
    done.emplace_back(route.path);
    w.key(route.path).beginObject();
    for (const Route& r : routes) {
      if (std::string_view(r.path) != route.path) continue;
      const bool post = std::string_view(r.method) == "POST";
      std::string method = r.method;
      for (char& c : method) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      w.key(method).beginObject().field("summary", r.summary);
      if (r.role != access::Role::kNone) {
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
      w.field("description", "an error; all errors have this shape").key("content").beginObject();
      w.key("application/json").beginObject().key("schema").beginObject();
      w.field("$ref", "#/components/schemas/Error").endObject().endObject().endObject().endObject();
      w.key("200").beginObject().field("description", "see docs/http-api.md").endObject().endObject();
      w.endObject();
    }
    w.endObject();
  }
  w.endObject().endObject();
  return text;
}

}  // namespace tracesmith::server
