#include "server/handlers/handlers.hpp"

#include "base/text.hpp"

namespace tracesmith::server {

Answer noCluster() { return Answer::error(404, "not available: this server shows one recorded trace, not a cluster"); }

TracePtr traceOf(Traces& traces, const std::string& id, Answer& instead) {
  double progress = 0;
  Result<TracePtr> trace = traces.open(id, progress);
  if (!trace) {
    instead = Answer::error(trace.status());
    return nullptr;
  }
  if (*trace) return *trace;
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("state", "running").field("progress", progress).endObject();
  instead = Answer::json(std::move(text), 202);
  instead.headers.emplace_back("Retry-After", "1");
  return nullptr;
}

Answer audited(const Sources& sources, const Request& r, const char* action, const std::string& what,
               const Status& status, Answer answer) {
  sources.guard.audit(r.peer.name, r.role, action, what.substr(0, 64), status);
  sources.cluster->changed();
  return answer;
}

}  // namespace tracesmith::server
