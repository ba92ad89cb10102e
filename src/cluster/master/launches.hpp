// Jobs that clients start on the nodes: who runs which rank, what the ranks print, how they end. The client's stream
// and the agents' streams meet here; none of them waits for another.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cluster/api.hpp"
#include "tracesmith_cluster.pb.h"

namespace tracesmith::cluster {

namespace pb = ::tracesmith::cluster;

/// Ranks on their nodes, as they are ordered there.
struct LaunchPlan {
  pb::LaunchRequest request;
  std::string master_addr;
  struct OfNode {
    std::vector<LaunchedRank> ranks;
    std::string visible_gpus;  // empty: the program chooses
  };
  std::vector<std::pair<std::string, OfNode>> nodes;  // in the order of ranks
  uint32_t worldSize() const;
};

/// One job. Thread safe. What it is given to call is called without a lock, and may call back.
class Launch {
 public:
  using Wake = std::function<void()>;
  Launch(LaunchPlan plan, Wake client);

  /// A node's agent has come. `wake`: there is an order for it; `resume`: it may go on to tell.
  Status attach(const std::string& node, Wake wake, Wake resume);
  bool nextOrder(const std::string& node, pb::RankOrder& order);
  /// False: the client is behind; no more until `resume` is called.
  bool take(const std::string& node, pb::RankEvent event);
  /// A node's agent has gone: its ranks end with it.
  void left(const std::string& node);

  bool nextEvent(pb::LaunchEvent& event);
  /// All ranks have ended, and all of it was told.
  bool told() const;
  /// All ranks are to end: somebody wants it so.
  void stop();
  /// The client has gone.
  void abandon();
  /// Nodes whose agents have not come in time will not.
  void look(std::chrono::steady_clock::time_point now);
  bool over() const;

 private:
  struct Node {
    Wake wake, resume;
    uint32_t number = 0;
    bool attached = false, started = false, stop_sent = false, paused = false;
    std::set<uint32_t> running;  // ranks that have not ended
  };
  std::vector<Wake> endLocked(const RankEnd& end);
  std::vector<Wake> stopLocked();
  bool overLocked() const;

  const LaunchPlan plan_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();

  mutable std::mutex mutex_;  // guards what follows
  Wake client_;
  std::map<std::string, Node> nodes_;
  std::deque<pb::LaunchEvent> events_;
  size_t waiting_bytes_ = 0;  // in events_
  bool stopping_ = false;
};

/// Those that run, by a random id that only agents are told. Thread safe.
class Launches {
 public:
  void add(const std::string& id, std::shared_ptr<Launch> launch);  // shared with the streams
  std::shared_ptr<Launch> find(const std::string& id) const;
  void look();
  size_t running() const;

 private:
  mutable std::mutex mutex_;  // guards launches_
  std::map<std::string, std::shared_ptr<Launch>> launches_;
};

}  // namespace tracesmith::cluster
