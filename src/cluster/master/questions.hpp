// What the master asks its agents and waits for: a question goes over each agent's link, the answers come as calls.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/api.hpp"

namespace tracesmith::cluster {

class AgentLink;

/// Thread safe.
class Questions {
 public:
  /// A node and the way to its agent; nullptr: it is not connected.
  using Asked = std::vector<std::pair<std::string, std::shared_ptr<AgentLink>>>;  // shared with the connections

  /// Blocks until all have answered, `wait` is over or close() is called. The answers are in the order of `nodes`.
  ClusterProcesses ask(const ProcessQuery& query, const Asked& nodes, std::chrono::milliseconds wait);
  /// From the node whose connection it came over. Answers nobody waits for are dropped.
  void answer(const std::string& node, uint64_t id, NodeProcesses answer);
  /// Nobody waits any more.
  void close();

 private:
  struct Open {
    std::map<std::string, size_t> missing;  // nodes by their place in the answers
    std::vector<NodeProcesses> answers;
  };
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<uint64_t, Open> open_;
  uint64_t last_ = 0;
  bool closed_ = false;
};

}  // namespace tracesmith::cluster
