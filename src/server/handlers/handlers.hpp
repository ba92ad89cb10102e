// The subjects of the API, an object each: it knows what it answers from, and which endpoints are its own.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "access/guard.hpp"
#include "server/api.hpp"
#include "server/http/route.hpp"
#include "server/sources/cluster_view.hpp"
#include "server/sources/frames_writer.hpp"
#include "server/sources/live_feed.hpp"
#include "server/sources/traces.hpp"

namespace tracesmith::server {

/// What handlers answer from. It outlives them.
struct Sources {
  const Options& options;
  const std::string& trace_path;  ///< of the one trace; empty with a cluster
  access::Guard& guard;
  ClusterView* cluster;        ///< nullptr: there is one recorded trace
  const FramesWriter* frames;  ///< nullptr: the frames of sessions are not written
  Traces& traces;
  LiveFeed& live;
  const std::vector<Route>& routes;  ///< of all subjects
  const std::atomic<uint64_t>& requests;
};

/// One subject. Its handlers may be called from any thread.
class Handlers {
 public:
  virtual ~Handlers() = default;
  virtual std::vector<Route> routes() = 0;
};

std::unique_ptr<Handlers> makeInfoHandlers(const Sources& sources);
std::unique_ptr<Handlers> makeClusterHandlers(const Sources& sources);
std::unique_ptr<Handlers> makeHardwareHandlers(const Sources& sources);
std::unique_ptr<Handlers> makeSelectHandlers(const Sources& sources);
std::unique_ptr<Handlers> makePlaceHandlers(const Sources& sources);
std::unique_ptr<Handlers> makeLiveHandlers(const Sources& sources);
std::unique_ptr<Handlers> makeMetricHandlers(const Sources& sources);
std::unique_ptr<Handlers> makePrometheusHandlers(const Sources& sources);
std::unique_ptr<Handlers> makeTraceHandlers(const Sources& sources);
std::unique_ptr<Handlers> makeQueryHandlers(const Sources& sources);
std::unique_ptr<Handlers> makeGswarmHandlers(const Sources& sources);
std::unique_ptr<Handlers> makeBalanceHandlers(const Sources& sources);

/// A file of the page.
Answer pageFile(const Request& request);

// What several subjects need.
constexpr access::Role kOpen = access::Role::kNone, kViewer = access::Role::kViewer,
                       kOperator = access::Role::kOperator, kAdmin = access::Role::kAdmin;
inline constexpr Parameter kName{"name", "string", false, "name of the session: letters, digits, . _ -"};
inline constexpr Parameter kLast{"last_s", "number", false, "also the seconds before now"};
inline constexpr Parameter kDuration{"duration_s", "number", false, "ends after so many seconds"};
inline constexpr Parameter kTrace{"trace", "string", false, "id of a trace"};

template <typename T>
Handler bind(T* self, Answer (T::*method)(const Request&)) {
  return [self, method](const Request& r) { return (self->*method)(r); };
}

Answer noCluster();
/// The trace of that id, or nothing and the answer to give instead.
TracePtr traceOf(Traces& traces, const std::string& id, Answer& instead);
/// Writes down who changed the cluster, and gives the answer on.
Answer audited(const Sources& sources, const Request& r, const char* action, const std::string& what,
               const Status& status, Answer answer);

}  // namespace tracesmith::server
