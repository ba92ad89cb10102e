// GPUs and how they are connected.
#include "base/text.hpp"
#include "server/app.hpp"
#include "server/topology.hpp"

namespace tracesmith::server {

/// Of the trace asked about, of the file, or of the master; otherwise the answer to give instead.
std::optional<Topology> App::topologyFor(const Request& r, Answer& instead) {
  if (cluster() && r.get("trace").empty()) {
    Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
    if (status) return topologyOf(**status);
    instead = Answer::error(status.status());
    return {};
  }
  TracePtr trace = traceOf(cluster() ? r.get("trace") : "file", instead);
  if (!trace) return {};
  Result<Topology> topology = topologyOf(trace->timeline());
  if (topology) return std::move(*topology);
  instead = Answer::error(topology.status());
  return {};
}

Answer App::devices(const Request& r) {
  Answer instead;
  Request all = r;
  all.query.clear();
  const std::optional<Topology> topology = topologyFor(all, instead);
  if (!topology) return instead;
  std::string text;
  JsonWriter w(text);
  w.beginObject().key("devices").beginArray();
  for (const auto& [node, n] : *topology)
    for (const auto& [index, d] : n.gpus) {
      w.beginObject().field("node", node).field("index", index).field("name", d.name).key("vendor");
      d.vendor.empty() ? w.null() : w.value(d.vendor);
      w.key("memory_bytes");
      d.memory == trace::kNull ? w.null() : w.value(d.memory);
      w.field("simulated", n.simulated).endObject();
    }
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

Answer App::topology(const Request& r) {
  Answer instead;
  const std::optional<Topology> topology = topologyFor(r, instead);
  return topology ? Answer::json(topologyJson(*topology)) : instead;
}

Answer App::topologyPicture(const Request& r) {
  Answer instead;
  const std::optional<Topology> topology = topologyFor(r, instead);
  if (!topology) return instead;
  Answer answer;
  answer.type = "image/svg+xml";
  answer.body = topologySvg(*topology, !cluster() || !r.get("trace").empty());
  return answer;
}

}  // namespace tracesmith::server
