// Jobs that are balanced: their plans, and steps of workers that have no probe.
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "access/names.hpp"
#include "model/travel_json.hpp"
#include "server/handlers/handlers.hpp"
#include "server/http/fields.hpp"

namespace tracesmith::server {
namespace {

using model::WorkerStep;

constexpr size_t kMostSteps = 4096;  // of a request
constexpr double kMostWhole = 1e9, kMostSeconds = 1e6;

const std::vector<Parameter>& stepFields() {
  static const auto* list = new std::vector<Parameter>{
      {"job", "string", true, "name of the job: letters, digits, . _ -"},
      {"rank", "integer", true, "of the worker"},
      {"ranks", "integer", true, "of the job"},
      {"total", "integer", true, "samples of all ranks in a step"},
      {"step", "integer", true, "its number"},
      {"batch", "integer", true, "samples that the worker trained on"},
      {"busy_s", "number", true, "its own work, without what it waited for others"},
      {"wall_s", "number", false, "the whole step (0: not measured)"},
      {"ahead", "integer", false, "batches that a worker may fetch before it trains on them (0)"},
  };
  return *list;
}

/// One step, strictly: every field that is needed, none that is not known, whole numbers where they must be.
class StepReader {
 public:
  Result<WorkerStep> read(simdjson::dom::element json) {
    simdjson::dom::object object;
    if (json.get_object().get(object)) return Status::invalid("a step is not a JSON object");
    for (const auto& [key, value] : object)
      if (std::none_of(stepFields().begin(), stepFields().end(),
                       [name = key](const Parameter& p) { return name == p.name; }))
        return Status::invalid("a step has no field '" + std::string(key.substr(0, 64)) + "'");
    object_ = object;
    WorkerStep s;
    std::string_view job;
    if (object["job"].get_string().get(job)) return Status::invalid("'job' must be a string");
    s.job = job;
    TS_TRY(access::checkName("job", s.job));
    TS_TRY(whole("rank", 0, s.rank));
    TS_TRY(whole("ranks", 1, s.ranks));
    TS_TRY(whole("total", 1, s.total));
    TS_TRY(whole("step", 0, s.step));
    TS_TRY(whole("batch", 1, s.batch));
    TS_TRY(seconds("busy_s", s.busy_s));
    if (has("wall_s")) TS_TRY(seconds("wall_s", s.wall_s));
    if (has("ahead")) TS_TRY(whole("ahead", 0, s.ahead));
    if (s.rank >= s.ranks) return Status::invalid("'rank' must be less than 'ranks'");
    if (s.batch > s.total) return Status::invalid("'batch' must not be more than 'total'");
    if (s.busy_s <= 0) return Status::invalid("'busy_s' must be more than 0");
    return s;
  }

 private:
  bool has(const char* name) const { return object_[name].error() == simdjson::SUCCESS; }
  Status whole(const char* name, int64_t least, int64_t& out) const {
    int64_t value = 0;
    if (object_[name].get_int64().get(value) || value < least || static_cast<double>(value) > kMostWhole)
      return Status::invalid("'" + std::string(name) + "' must be a whole number between " + std::to_string(least) +
                             " and 1000000000");
    out = value;
    return {};
  }
  Status seconds(const char* name, double& out) const {
    double value = 0;
    if (object_[name].get_double().get(value) || !std::isfinite(value) || value < 0 || value > kMostSeconds)
      return Status::invalid("'" + std::string(name) + "' must be a number of seconds between 0 and 1000000");
    out = value;
    return {};
  }

  simdjson::dom::object object_;
};

class BalanceHandlers final : public Handlers {
 public:
  explicit BalanceHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override {
    return {
        {"GET",
         "/api/v1/plans",
         kViewer,
         "Jobs that are balanced: the speed of their ranks, plans, and what they gained",
         {},
         bind(this, &BalanceHandlers::plans)},
        {"POST",
         "/api/v1/plans/{job}/undo",
         kOperator,
         "Back to the plan before",
         {},
         bind(this, &BalanceHandlers::undo)},
        {"POST",
         "/api/v1/plans/{job}/dry_run",
         kOperator,
         "Whether plans of the job are only told, and not followed",
         {{"mode", "string", true, "on or off"}},
         bind(this, &BalanceHandlers::dryRun)},
        {"POST", "/api/v1/ingest", kOperator,
         "Steps of workers without a probe, one or a list; the answer has the plan of each", stepFields(),
         bind(this, &BalanceHandlers::ingest)},
    };
  }

 private:
  Answer plans(const Request& r);
  Answer undo(const Request& r);
  Answer dryRun(const Request& r);
  Answer ingest(const Request& r);
  Answer changed(const Request& r, const char* action, const Status& status);

  const Sources& sources_;
};

Answer BalanceHandlers::plans(const Request&) {
  if (!sources_.cluster) return Answer::json(model::toJson(model::BalanceStatus{}));
  const Result<model::BalanceStatus> status = sources_.cluster->client().plans();
  return status ? Answer::json(model::toJson(*status)) : Answer::error(status.status());
}

Answer BalanceHandlers::changed(const Request& r, const char* action, const Status& status) {
  std::string text;
  JsonWriter(text).beginObject().field("job", r.name("job")).endObject();
  return audited(sources_, r, action, r.name("job").substr(0, 64), status,
                 status ? Answer::json(std::move(text)) : Answer::error(status));
}

Answer BalanceHandlers::undo(const Request& r) {
  if (!sources_.cluster) return noCluster();
  return changed(r, "undo-plan", sources_.cluster->client().undoPlan(r.name("job")));
}

Answer BalanceHandlers::dryRun(const Request& r) {
  if (!sources_.cluster) return noCluster();
  const Result<Fields> fields = Fields::parse(r.body);
  if (!fields) return Answer::error(fields.status());
  std::string mode;
  if (const Status s = fields->text("mode", mode); !s) return Answer::error(s);
  if (mode != "on" && mode != "off") return Answer::error(Status::invalid("'mode' must be on or off"));
  return changed(r, mode == "on" ? "dry-run-on" : "dry-run-off",
                 sources_.cluster->client().setDryRun(r.name("job"), mode == "on"));
}

Answer BalanceHandlers::ingest(const Request& r) {
  if (!sources_.cluster) return noCluster();
  simdjson::dom::parser parser;
  simdjson::dom::element json;
  if (parser.parse(r.body).get(json))
    return Answer::error(Status::invalid("the body cannot be read as JSON: send a step, or a list of steps"));
  const bool list = json.is_array();
  std::vector<WorkerStep> steps;
  auto add = [&](simdjson::dom::element item) -> Status {
    Result<WorkerStep> step = StepReader().read(item);
    if (!step) return step.status();
    if (steps.size() == kMostSteps)
      return Status::invalid("a request has at most " + std::to_string(kMostSteps) + " steps");
    steps.push_back(std::move(*step));
    return {};
  };
  if (list) {
    for (simdjson::dom::element item : simdjson::dom::array(json))
      if (const Status s = add(item); !s) return Answer::error(s);
  } else if (const Status s = add(json); !s) {
    return Answer::error(s);
  }
  Result<std::vector<model::WorkerPlan>> plans = sources_.cluster->client().work(steps);
  if (!plans) return Answer::error(plans.status());
  return Answer::json(list ? model::toJson(model::WorkerPlans{std::move(*plans)}) : model::toJson(plans->front()));
}

}  // namespace

std::unique_ptr<Handlers> makeBalanceHandlers(const Sources& sources) {
  return std::make_unique<BalanceHandlers>(sources);
}

}  // namespace tracesmith::server
