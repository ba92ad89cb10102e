// The traces that can be asked about: the file, or the sessions of a master, laid out on disk when first asked for.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cluster/api.hpp"
#include "query/engine.hpp"
#include "server/api.hpp"
#include "server/timeline/timeline.hpp"

namespace tracesmith::server {

/// One open trace. Shared by the requests that use it: it outlives its replacement by a newer state.
class OpenTrace {
 public:
  OpenTrace(std::string id, std::string title, std::string path, bool temporary)
      : id_(std::move(id)), title_(std::move(title)), path_(std::move(path)), temporary_(temporary) {}
  ~OpenTrace();

  const std::string& id() const { return id_; }
  const std::string& title() const { return title_; }
  const std::string& path() const { return path_; }
  Timeline& timeline() { return *timeline_; }

  /// Runs with the SQL engine of this trace, which takes one query at a time. kExhausted: it stayed busy.
  Status withEngine(const LoadEngine& load, const std::function<Status(query::Engine&)>& use);
  /// The JSON of `tracesmith analyze`; empty while it is being made.
  Result<std::string> analysis();

 private:
  friend class Traces;
  const std::string id_, title_, path_;
  const bool temporary_;  // removed at the end
  std::unique_ptr<Timeline> timeline_;
  uint64_t session_bytes_ = 0;  // of the session when it was laid out
  std::chrono::steady_clock::time_point made_{};
  double cost_s_ = 0;  // of laying it out

  std::timed_mutex engine_mutex_;  // guards engine_
  std::unique_ptr<query::Engine> engine_;
  std::mutex analysis_mutex_;  // guards what follows
  std::optional<Result<std::string>> analysis_;
  std::thread analyzer_;
};
using TracePtr = std::shared_ptr<OpenTrace>;

/// Thread safe.
class Traces {
 public:
  using FindSession = std::function<Result<cluster::SessionInfo>(const std::string& id)>;
  /// `client`: of a master; nullptr: `file` is the one trace.
  Traces(cluster::Client* client, FindSession find, std::string file, std::string folder);
  ~Traces();
  Status prepare();

  /// The trace, when it is ready; an empty pointer while it is not, with how far it is.
  Result<TracePtr> open(const std::string& id, double& progress);

 private:
  struct Entry {
    TracePtr trace;
    Status failure;
    bool working = false;
    std::atomic<double> progress{0};
    std::thread worker;
    std::chrono::steady_clock::time_point used{};
  };
  void work(Entry& entry, const std::string& id, const std::string& title, uint64_t bytes);
  void forget();

  cluster::Client* const client_;
  const FindSession find_;
  const std::string file_, folder_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable done_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
  uint64_t next_ = 0;
  bool stop_ = false;
};

}  // namespace tracesmith::server
