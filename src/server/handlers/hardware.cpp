// GPUs and how they are connected.
#include "base/text.hpp"
#include "server/handlers/handlers.hpp"
#include "server/sources/topology.hpp"

namespace tracesmith::server {
namespace {

class HardwareHandlers final : public Handlers {
 public:
  explicit HardwareHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override;

 private:
  Answer devices(const Request& r);
  Answer topology(const Request& r);
  Answer topologyPicture(const Request& r);
  std::optional<Topology> topologyFor(const Request& r, Answer& instead);

  const Sources& sources_;
};

std::vector<Route> HardwareHandlers::routes() {
  return {
      {"GET", "/api/v1/devices", kViewer, "GPUs", {}, bind(this, &HardwareHandlers::devices)},
      {"GET",
       "/api/v1/topology",
       kViewer,
       "GPUs and their links, as recorded in a trace",
       {kTrace},
       bind(this, &HardwareHandlers::topology)},
      {"GET",
       "/api/v1/topology.svg",
       kViewer,
       "The same as an SVG image",
       {kTrace},
       bind(this, &HardwareHandlers::topologyPicture)},
  };
}

/// Of the trace asked about, of the file, or of the master; otherwise the answer to give instead.
std::optional<Topology> HardwareHandlers::topologyFor(const Request& r, Answer& instead) {
  if (sources_.cluster && r.get("trace").empty()) {
    Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
    if (status) return topologyOf(**status);
    instead = Answer::error(status.status());
    return {};
  }
  TracePtr trace =
      traceOf(sources_.traces, sources_.cluster || !r.get("trace").empty() ? r.get("trace") : "file", instead);
  if (!trace) return {};
  Result<Topology> topology = topologyOf(trace->timeline());
  if (topology) return std::move(*topology);
  instead = Answer::error(topology.status());
  return {};
}

Answer HardwareHandlers::devices(const Request& r) {
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

Answer HardwareHandlers::topology(const Request& r) {
  Answer instead;
  const std::optional<Topology> topology = topologyFor(r, instead);
  return topology ? Answer::json(topologyJson(*topology)) : instead;
}

Answer HardwareHandlers::topologyPicture(const Request& r) {
  Answer instead;
  const std::optional<Topology> topology = topologyFor(r, instead);
  if (!topology) return instead;
  Answer answer;
  answer.type = "image/svg+xml";
  answer.body = topologySvg(*topology, !sources_.cluster || !r.get("trace").empty());
  return answer;
}

}  // namespace

std::unique_ptr<Handlers> makeHardwareHandlers(const Sources& sources) {
  return std::make_unique<HardwareHandlers>(sources);
}

}  // namespace tracesmith::server
