// Which GPUs of the cluster are best for some work.
#include <mutex>

#include "schedule/node.hpp"
#include "server/handlers/handlers.hpp"
#include "server/http/fields.hpp"

namespace tracesmith::server {
namespace {

using schedule::GPUClusteringManager;
using schedule::SelectionRequest;

constexpr double kMostDevices = 1e6, kMostBytes = 1e18, kMostSeconds = 1e6, kMostCelsius = 1000;

const std::vector<Parameter>& parameters() {
  static const auto* list = new std::vector<Parameter>{
      {"count", "integer", false, "how many GPUs (1)"},
      {"min_memory_bytes", "number", false, "free memory that each must have"},
      {"precision", "string", false, "that each must support: fp64, fp32, tf32, fp16, bf16, fp8, int8, fp4"},
      {"vendor", "string", false, "nvidia, amd, intel, apple, qualcomm"},
      {"node", "string", false, "only GPUs of this node"},
      {"near", "string", false, "prefer GPUs with the fastest link to this one: NODE:INDEX"},
      {"exclude", "string", false, "GPUs not to choose: NODE:INDEX,NODE:INDEX"},
      {"max_utilization_percent", "number", false, "that each may have at most"},
      {"max_temperature_celsius", "number", false, "that each may have at most"},
      {"max_age_s", "number", false, "older telemetry does not count (30); 0: any does"},
  };
  return *list;
}

Result<SelectionRequest> requestOf(const std::string& body) {
  Result<Fields> fields = Fields::parse(body);
  if (!fields) return fields.status();
  TS_TRY(fields->only(parameters()));
  SelectionRequest request;
  std::string exclude;
  double count = request.count, memory = 0, utilization = 0, temperature = 0;
  TS_TRY(fields->number("count", 1, kMostDevices, count));
  TS_TRY(fields->number("min_memory_bytes", 0, kMostBytes, memory));
  TS_TRY(fields->number("max_utilization_percent", 0, 100, utilization));
  TS_TRY(fields->number("max_temperature_celsius", -kMostCelsius, kMostCelsius, temperature));
  TS_TRY(fields->number("max_age_s", 0, kMostSeconds, request.max_age_s));
  TS_TRY(fields->text("precision", request.precision));
  TS_TRY(fields->text("vendor", request.vendor));
  TS_TRY(fields->text("node", request.node));
  TS_TRY(fields->text("near", request.near));
  TS_TRY(fields->text("exclude", exclude));
  request.count = static_cast<uint32_t>(count);
  request.min_memory_bytes = static_cast<uint64_t>(memory);
  if (fields->has("max_utilization_percent")) request.max_utilization_percent = utilization;
  if (fields->has("max_temperature_celsius")) request.max_temperature_celsius = temperature;
  for (size_t at = 0; at < exclude.size();) {
    const size_t end = std::min(exclude.find(',', at), exclude.size());
    if (end > at) request.exclude.push_back(exclude.substr(at, end - at));
    at = end + 1;
  }
  return request;
}

class SelectHandlers final : public Handlers {
 public:
  explicit SelectHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override {
    return {{"POST", "/api/v1/select", kViewer, "The best GPUs for some work, and why others are not suitable",
             parameters(), bind(this, &SelectHandlers::select)}};
  }

 private:
  Answer select(const Request& r);
  Result<std::shared_ptr<const GPUClusteringManager>> devices();

  const Sources& sources_;
  std::mutex mutex_;                                     // guards what follows
  uint64_t version_ = 0;                                 // of what the nodes last told
  std::shared_ptr<const GPUClusteringManager> devices_;  // shared with those who choose from it
};

/// The devices of all nodes with what they last told; made once for everybody who asks within a second.
Result<std::shared_ptr<const GPUClusteringManager>> SelectHandlers::devices() {
  const std::shared_ptr<const LiveFeed::State> live = sources_.live.now();
  std::lock_guard lock(mutex_);
  if (devices_ && live->version == version_) return devices_;
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
  if (!status) return status.status();
  schedule::GPUClusteringConfig config;
  config.max_history = 0;
  auto made = std::make_shared<GPUClusteringManager>(config);
  for (const cluster::NodeStatus& node : (*status)->nodes) TS_TRY(schedule::registerNode(*made, node));
  for (const cluster::LiveNode& node : live->live.nodes) TS_TRY(schedule::recordNode(*made, node.report, node.age_s));
  version_ = live->version;
  devices_ = made;
  return devices_;
}

Answer SelectHandlers::select(const Request& r) {
  if (!sources_.cluster) return noCluster();
  const Result<SelectionRequest> request = requestOf(r.body);
  if (!request) return Answer::error(request.status());
  const Result<std::shared_ptr<const GPUClusteringManager>> all = devices();
  if (!all) return Answer::error(all.status());
  const Result<schedule::Selection> selection = (*all)->select(*request);
  return selection ? Answer::json(selectionJson(*selection, *request)) : Answer::error(selection.status());
}

}  // namespace

std::unique_ptr<Handlers> makeSelectHandlers(const Sources& sources) {
  return std::make_unique<SelectHandlers>(sources);
}

}  // namespace tracesmith::server
