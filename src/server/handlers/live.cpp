// What changes by the second, for every page that listens.
#include <algorithm>
#include <atomic>
#include <memory>

#include "model/travel_json.hpp"
#include "server/handlers/handlers.hpp"
#include "server/http/limits.hpp"

namespace tracesmith::server {
namespace {

class LiveHandlers final : public Handlers {
 public:
  explicit LiveHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override;

 private:
  Answer hang(const Request& r);
  Answer metricsLatest(const Request& r);
  Answer events(const Request& r);

  const Sources& sources_;
};

std::vector<Route> LiveHandlers::routes() {
  return {
      {"GET",
       "/api/v1/hang",
       kViewer,
       "Whether the job hangs, and who is missing",
       {},
       bind(this, &LiveHandlers::hang)},
      {"GET",
       "/api/v1/metrics/latest",
       kViewer,
       "Latest value of every metric",
       {},
       bind(this, &LiveHandlers::metricsLatest)},
      {"GET",
       "/api/v1/events",
       kViewer,
       "Server-sent events: status and metrics each second, alerts",
       {{"token", "string", false, "token, for EventSource, which cannot send the header"}},
       bind(this, &LiveHandlers::events)},
  };
}

/// Counts an event stream as long as it is open.
struct Place {
  std::atomic<size_t>& count;
  explicit Place(std::atomic<size_t>& c) : count(c) { ++count; }
  ~Place() { --count; }
};

Answer LiveHandlers::events(const Request&) {
  LiveFeed& live = sources_.live;
  auto place = std::make_shared<Place>(live.listeners());
  if (live.listeners() > kEventStreams)
    return Answer::error(503, "too many open pages (limit " + std::to_string(kEventStreams) + "): close one");
  Answer answer;
  answer.type = "text/event-stream";
  answer.headers.emplace_back("Cache-Control", "no-store");
  answer.stream = [&live, place](const Sink& sink) {
    uint64_t seen = 0;
    int64_t last_told = INT64_MIN;  // alerts from before are in /hang
    bool first = true;
    if (!sink(": welcome\n\n")) return false;
    while (const auto state = live.next(seen)) {
      std::string out = ": still here\n\n";
      if (state->version != seen) {
        seen = state->version;
        out =
            "event: status\ndata: " + state->status_json + "\n\nevent: metrics\ndata: " + state->metrics_json + "\n\n";
        const int64_t told = last_told;
        for (const model::Alert& a : state->hang.alerts) {
          last_told = std::max(last_told, a.t_ns);
          if (!first && a.t_ns > told) out += "event: alert\ndata: " + model::toJson(a) + "\n\n";
        }
        first = false;
      }
      if (!sink(out)) return false;
    }
    return true;
  };
  return answer;
}

Answer LiveHandlers::metricsLatest(const Request&) {
  if (!sources_.cluster) return Answer::json(model::toJson(model::LatestMetrics{}));
  return Answer::json(latestJson(sources_.live.now()->live));
}

Answer LiveHandlers::hang(const Request&) {
  if (!sources_.cluster) {
    model::HangAnswer none;
    none.verdict = "this is a recorded trace: nothing is running";
    return Answer::json(model::toJson(none));
  }
  const auto state = sources_.live.now();
  return Answer::json(model::toJson(model::HangAnswer{state->hang.verdict, state->hang.alerts}));
}

}  // namespace

std::unique_ptr<Handlers> makeLiveHandlers(const Sources& sources) { return std::make_unique<LiveHandlers>(sources); }

}  // namespace tracesmith::server
