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
#include "server/api.hpp"
#include "server/sources/trace_metrics.hpp"
#include "server/timeline/timeline.hpp"

namespace tracesmith::server {

/// A file that goes away when nobody uses it any more.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

/// One open trace. Shared by the requests that use it: it outlives its replacement by a newer state.
class OpenTrace {
 public:
  /// `temporary`: the file, if it is not the user's; shared by states of a session that grows.
  OpenTrace(std::string id, std::string title, std::string path, std::shared_ptr<TemporaryFile> temporary)
      : id_(std::move(id)), title_(std::move(title)), path_(std::move(path)), temporary_(std::move(temporary)) {}
  ~OpenTrace();

  const std::string& id() const { return id_; }
  const std::string& title() const { return title_; }
  const std::string& path() const { return path_; }
  Timeline& timeline() { return *timeline_; }
  TraceMetrics& metrics() { return *metrics_; }

  /// The JSON of `tracesmith analyze`; empty while it is being made.
  Result<std::string> analysis();

 private:
  friend class Traces;
  const std::string id_, title_, path_;
  const std::shared_ptr<TemporaryFile> temporary_;
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<TraceMetrics> metrics_;
  uint64_t session_bytes_ = 0;  // of the session when it was laid out
  std::chrono::steady_clock::time_point made_{};
  double cost_s_ = 0;  // of laying it out

  std::mutex analysis_mutex_;  // guards what follows
  std::optional<Result<std::string>> analysis_;
  std::thread analyzer_;
};
using TracePtr = std::shared_ptr<OpenTrace>;

/// Thread safe.
class Traces {
 public:
  using FindSession = std::function<Result<cluster::SessionInfo>(const std::string& id)>;
  struct File {
    std::string path, title;
  };
  /// `master`: nullptr: `files` are the traces, called "file" and "other".
  Traces(cluster::SessionTraces* master, FindSession find, std::vector<File> files, std::string folder);
  ~Traces();
  Status prepare();

  /// The trace, when it is ready; an empty pointer while it is not, with how far it is.
  Result<TracePtr> open(const std::string& id, double& progress);
  /// Ids of the files.
  std::vector<std::string> files() const;

 private:
  struct Entry {
    TracePtr trace;
    // Of a session that records: its copy, which grows.
    std::shared_ptr<TemporaryFile> copy_file;  // shared with the states of it that are open
    std::unique_ptr<cluster::SessionCopy> copy;
    Status failure;
    bool working = false;
    std::atomic<double> progress{0};
    std::thread worker;
    std::chrono::steady_clock::time_point used{};
  };
  struct Job {
    std::string id, title;
    uint64_t bytes = 0;
    bool records = false;
    File file{};
  };
  void work(Entry& entry, const Job& job);
  Result<TracePtr> layOut(Entry& entry, const Job& job);
  Result<TracePtr> grow(Entry& entry, const Job& job);
  std::string newPath(const std::string& id);
  void forget();

  cluster::SessionTraces* const master_;
  const FindSession find_;
  const std::vector<File> files_;
  const std::string folder_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable done_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
  uint64_t next_ = 0;
  bool stop_ = false;
};

}  // namespace tracesmith::server
