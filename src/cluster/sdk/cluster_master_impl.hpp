// What a ClusterMaster holds. cluster_master.cpp has the nodes and captures, cluster_master_traces.cpp what was
// recorded.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/api.hpp"
#include "trace/export/export.hpp"
#include "tracesmith/cluster/cluster_master.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cluster {

struct ClusterMaster::Impl {
  ClusterMasterConfig config;
  std::unique_ptr<Server> server;
  mutable std::mutex mutex;  // guards what follows: a client is for one thread at a time
  std::unique_ptr<Client> client;
  std::string session;  // of the last capture
  mutable Status last;
  /// Of the last capture, by node; counted once when it has ended.
  mutable std::string counted;  // the session it was counted for
  mutable std::map<std::string, NodeAggregator::Statistics> counts;
  ClientOptions own;                 // to this master
  std::unique_ptr<Client> follower;  // of the subscription
  std::thread following;
  std::atomic<uint64_t> lost{0};

  bool note(const Status& status) const {
    if (!status) last = status;
    return status.ok();
  }
  ClusterStatus status() const {
    if (!client) return {};
    Result<ClusterStatus> s = client->status();
    if (!s) (void)note(s.status());
    return s ? *s : ClusterStatus{};
  }
  /// The last capture, of these nodes alone; empty: of all.
  Status fetch(File& into, const std::vector<std::string>& nodes = {}) const;
  bool exportTo(const std::string& filename, const std::vector<std::string>& nodes = {}) const;
  TraceRecord collect(const std::vector<std::string>& nodes) const;
  /// Whether all of the last capture is here, and its nodes. Path and events are not filled in.
  TraceRecord progress(const std::vector<std::string>& nodes) const;
  /// The last capture in a file without a name: in memory if it is small, else on the disk of `data_dir`.
  Result<File> scratch() const;
  /// It, for a reader that goes on when the file is closed.
  Result<std::unique_ptr<trace::Reader>> open() const;
  void count(const std::vector<SessionInfo>& sessions) const;
  bool exportAs(Status (*format)(trace::Export&), const std::string& filename);
};

}  // namespace tracesmith::cluster
