// Which rank of a job belongs on which GPU of the cluster.
#include "schedule/placement.hpp"
#include "server/handlers/handlers.hpp"
#include "server/http/fields.hpp"

namespace tracesmith::server {
namespace {

using schedule::PlacementRequest;

constexpr double kMostWeight = 1e12;

const std::vector<Parameter>& parameters() {
  static const auto* list = new std::vector<Parameter>{
      {"tensor", "integer", false, "ranks of a tensor-parallel group (1)"},
      {"data", "integer", false, "ranks of a data-parallel group (1)"},
      {"pipeline", "integer", false, "stages of a pipeline (1)"},
      {"tensor_weight", "number", false,
       "what a step moves through each rank of such a group, GB or in proportion (16)"},
      {"data_weight", "number", false, "the same (4)"},
      {"pipeline_weight", "number", false, "the same, to the next stage (1)"},
      {"nodes", "string", false, "only GPUs of these nodes, in this order: NODE,NODE"},
  };
  return *list;
}

Result<PlacementRequest> requestOf(const std::string& body, std::vector<std::string>& nodes) {
  Result<Fields> fields = Fields::parse(body);
  if (!fields) return fields.status();
  TS_TRY(fields->only(parameters()));
  PlacementRequest request;
  for (const auto& [name, size] :
       {std::pair{"tensor", &request.tensor}, {"data", &request.data}, {"pipeline", &request.pipeline}}) {
    double value = *size;
    TS_TRY(fields->number(name, 1, schedule::PlacementDevices::kMost, value));
    *size = static_cast<uint32_t>(value);
  }
  TS_TRY(fields->number("tensor_weight", 0, kMostWeight, request.tensor_weight));
  TS_TRY(fields->number("data_weight", 0, kMostWeight, request.data_weight));
  TS_TRY(fields->number("pipeline_weight", 0, kMostWeight, request.pipeline_weight));
  std::string names;
  TS_TRY(fields->text("nodes", names));
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    if (end > at) nodes.push_back(names.substr(at, end - at));
    at = end + 1;
  }
  return request;
}

class PlaceHandlers final : public Handlers {
 public:
  explicit PlaceHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override {
    return {{"POST", "/api/v1/place", kViewer, "Which rank of a job belongs on which GPU, and what that gains",
             parameters(), bind(this, &PlaceHandlers::place)}};
  }

 private:
  Answer place(const Request& r);

  const Sources& sources_;
};

Answer PlaceHandlers::place(const Request& r) {
  if (!sources_.cluster) return noCluster();
  std::vector<std::string> names;
  const Result<PlacementRequest> request = requestOf(r.body, names);
  if (!request) return Answer::error(request.status());
  const Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
  if (!status) return Answer::error(status.status());
  if (names.empty())
    for (const cluster::NodeStatus& node : (*status)->nodes)
      if (node.connected) names.push_back(node.node);
  schedule::PlacementDevices devices;
  for (const std::string& name : names) {
    const auto& all = (*status)->nodes;
    const auto node = std::find_if(all.begin(), all.end(), [&](const auto& n) { return n.node == name; });
    if (node == all.end()) return Answer::error(Status::notFound("there is no node " + name));
    devices.addNode(*node);
  }
  const Result<schedule::Placement> placement = schedule::place(devices, *request);
  return placement ? Answer::json(placementJson(*placement)) : Answer::error(placement.status());
}

}  // namespace

std::unique_ptr<Handlers> makePlaceHandlers(const Sources& sources) { return std::make_unique<PlaceHandlers>(sources); }

}  // namespace tracesmith::server
