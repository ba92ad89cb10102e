// The master's watcher: keeps what nodes last said and looks twice a second whether the job stands still or got slow.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "analysis/live/watcher.hpp"
#include "cluster/api.hpp"
#include "cluster/master/hang_stacks.hpp"

namespace tracesmith::cluster {

/// Thread safe. Runs from construction to destruction.
class LiveWatch {
 public:
  /// Called for every alert, by the watcher's thread, without a lock.
  using Sink = std::function<void(const Alert&, const analysis::live::HangVerdict&)>;

  /// Asks nodes what their processes are doing; by the watcher's thread, without a lock.
  using Ask = std::function<Result<ClusterProcesses>(const ProcessQuery&)>;

  /// `now`: the reference clock. A node that is silent for longer than `silent_ns` is told of.
  LiveWatch(std::function<int64_t()> now, int64_t silent_ns, Ask ask);
  ~LiveWatch();

  void take(const std::string& node, analysis::live::NodeReport report);
  /// What a node has installed.
  void describe(const NodeDescription& node);
  /// A node that left the cluster.
  void forget(const std::string& node);
  LiveStatus live() const;
  HangStatus hang() const;
  /// What came together since the master started.
  struct Sums {
    std::vector<analysis::live::RankTotal> ranks;
    std::vector<analysis::live::TransferRate> transfers;
    std::map<analysis::live::SlowDetector::RankKey, analysis::live::SlowDetector::RankCost> costs;
    std::map<AlertKind, uint64_t> alerts;  ///< how many of each kind
  };
  Sums sums() const;
  void setSink(Sink sink);

 private:
  struct Node {
    analysis::live::NodeReport report;
    int64_t at_ns = 0;  // reference clock
  };
  void loop();

  const std::function<int64_t()> now_;
  const Ask ask_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable stopped_;
  std::map<std::string, Node> nodes_;
  analysis::live::Watcher watcher_;
  HangStacks stacks_;
  std::deque<Alert> alerts_;  // the last ones
  std::map<AlertKind, uint64_t> alert_counts_;
  Sink sink_;
  bool stop_ = false;
  std::thread thread_;
};

class Master;
/// Keeps what the flight recorders of all ranks hold of the last seconds, up to now: the session hang-TIME.
Result<SessionInfo> freeze(Master& master, double last_s);

}  // namespace tracesmith::cluster
