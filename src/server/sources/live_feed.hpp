// What changes by the second: asked of the master once for everybody who listens.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/sources/cluster_view.hpp"
#include "server/sources/history.hpp"

namespace tracesmith::server {

/// Runs in a thread of its own from construction to stop(). Thread safe.
class LiveFeed {
 public:
  struct State {
    uint64_t version = 0;  ///< 0: nothing is known yet
    cluster::LiveStatus live;
    cluster::HangStatus hang;
    std::string status_json, metrics_json;  ///< what event streams send, written once for all of them
  };
  /// nullptr: nothing is live. The view must outlive it.
  explicit LiveFeed(ClusterView* cluster);
  ~LiveFeed() { stop(); }
  /// Lets go of everybody who waits.
  void stop();

  std::shared_ptr<const State> now() const;
  /// Waits for another version than `seen`, or for some seconds. Empty: it was stopped.
  std::shared_ptr<const State> next(uint64_t seen) const;
  /// A node's clock over the last day; empty: it was never known.
  std::vector<model::ClockPoint> clock(const std::string& node) const;
  model::MetricSeries series(const SeriesQuery& query) const { return history_.series(query); }
  /// How many event streams are open.
  std::atomic<size_t>& listeners() { return listeners_; }

 private:
  void follow();
  void remember(const cluster::ClusterStatus& status);

  ClusterView* const cluster_;
  MetricHistory history_;
  std::atomic<size_t> listeners_{0};
  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable changed_;
  std::shared_ptr<const State> state_ = std::make_shared<State>();  // shared with those who read it
  std::map<std::string, std::deque<model::ClockPoint>> clocks_;
  int64_t clock_saved_ns_ = 0;
  bool stop_ = false;
  std::thread follower_;
};

/// The newest value of every metric of every GPU, as JSON.
std::string latestJson(const cluster::LiveStatus& live);

}  // namespace tracesmith::server
