// What the handlers share: the master or the trace they speak of, who may ask, what is live.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "access/guard.hpp"
#include "cluster/api.hpp"
#include "server/api.hpp"
#include "server/history.hpp"
#include "server/http/message.hpp"
#include "server/topology.hpp"
#include "server/traces.hpp"

namespace tracesmith::server {

/// One declaration: the router, the check of methods and roles, and the OpenAPI document come from it.
struct Parameter {
  const char* name;
  const char* type;  ///< of JSON Schema: string, integer, number
  bool required;
  const char* doc;
};
class App;
struct Route {
  const char* method;
  const char* path;  ///< with {name} for a part that varies
  access::Role role;
  const char* summary;
  std::vector<Parameter> parameters;  ///< of the query, or fields of the body of a POST
  Answer (App::*handler)(const Request&);
};
const std::vector<Route>& routes();
std::string openApi();

/// Handlers may be called from any thread.
class App {
 public:
  static Result<std::unique_ptr<App>> open(const Options& options, cluster::Server* master, const std::string& trace);
  ~App();
  /// Lets go of everybody who waits; no call of handle() may begin after it.
  void stop();

  bool admit(Request& request, const std::map<std::string, std::string>& headers, Answer& answer);
  Answer handle(const Request& request);

  // info.cpp
  Answer root(const Request& r);
  Answer page(const Request& r);
  Answer info(const Request& r);
  Answer health(const Request& r);
  Answer ready(const Request& r);
  Answer schema(const Request& r);
  Answer openapi(const Request& r);
  // cluster.cpp
  Answer nodes(const Request& r);
  Answer clock(const Request& r);
  Answer sessions(const Request& r);
  Answer startSession(const Request& r);
  Answer stopSession(const Request& r);
  // gswarm.cpp: requirement 2's API
  Answer status(const Request& r);
  Answer clients(const Request& r);
  Answer latest(const Request& r);
  Answer profilingStart(const Request& r);
  Answer profilingStop(const Request& r);
  Answer profilingSessions(const Request& r);
  Answer profilingRecord(const Request& r);
  // trace_handlers.cpp
  Answer traceList(const Request& r);
  Answer timeline(const Request& r);
  Answer tiles(const Request& r);
  Answer traceEvent(const Request& r);
  Answer traceStats(const Request& r);
  Answer traceSearch(const Request& r);
  Answer traceAnalysis(const Request& r);
  Answer traceExport(const Request& r);
  // query_handler.cpp
  Answer query(const Request& r);
  // live.cpp
  Answer events(const Request& r);
  Answer metricsLatest(const Request& r);
  Answer hang(const Request& r);
  // metrics.cpp
  Answer metricNames(const Request& r);
  Answer metricSeries(const Request& r);
  // hardware.cpp
  Answer devices(const Request& r);
  Answer topology(const Request& r);
  Answer topologyPicture(const Request& r);
  // prometheus.cpp
  Answer prometheus(const Request& r);

 private:
  App() = default;
  void follow();
  void remember(const cluster::ClusterStatus& status);

  bool cluster() const { return client_ != nullptr; }
  /// As it was at most a moment ago.
  Result<std::shared_ptr<const cluster::ClusterStatus>> snapshot();
  Result<cluster::SessionInfo> session(const std::string& id);
  Answer noCluster() const;
  TracePtr traceOf(const std::string& id, Answer& instead);
  std::optional<Topology> topologyFor(const Request& r, Answer& instead);
  Answer audited(const Request& r, const char* action, const std::string& what, const Status& status, Answer answer);

  Options options_;
  std::string trace_path_;
  access::Guard guard_;
  bool guarded_ = false;  // tokens or certificates are asked for
  std::unique_ptr<cluster::Client> client_;
  std::unique_ptr<Traces> traces_;

  std::mutex snapshot_mutex_;                               // guards the next two
  std::shared_ptr<const cluster::ClusterStatus> snapshot_;  // shared with those who read it
  std::chrono::steady_clock::time_point snapshot_time_{};

  struct ClockPoint {
    int64_t t, offset_ns, bound_ns;
    double drift_ppm;
  };
  std::mutex live_mutex_;  // guards what follows
  std::condition_variable live_changed_;
  uint64_t live_version_ = 0;
  std::string live_status_, live_metrics_;  // what the event streams send, written once for all of them
  cluster::LiveStatus live_;
  cluster::HangStatus hang_;
  std::map<std::string, std::deque<ClockPoint>> clocks_;
  int64_t clock_saved_ns_ = 0;
  bool stop_ = false;

  MetricHistory history_;
  std::atomic<size_t> event_streams_{0};
  std::atomic<uint64_t> requests_{0};
  std::thread follower_;
};

}  // namespace tracesmith::server
