// The nodes that nodes.yaml declares: their agents are invited until they come, and what is declared of a node goes
// over what it tells.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/api.hpp"
#include "hardware/capability.hpp"

namespace tracesmith::cluster {

/// Thread safe, once it was opened.
class DeclaredNodes {
 public:
  ~DeclaredNodes() { stop(); }
  /// Without a path nothing is declared.
  Status open(const std::string& path);

  /// Dials an agent, which answers with its node's name.
  using Invite = std::function<Result<std::string>(const std::string& address)>;
  using Connected = std::function<bool(const std::string& node)>;
  /// Invites agents from a thread of its own until stop().
  void start(Invite invite, Connected connected);
  void stop();

  /// Prices and figures of nodes; nodes that have not come yet, with the reason.
  void addTo(ClusterStatus& status) const;

 private:
  struct Waiting {
    std::string address, problem;  // problem: why it has not come; empty: it was not tried yet
    std::chrono::milliseconds pause{0};
    std::chrono::steady_clock::time_point next{};
  };
  void loop(const Invite& invite, const Connected& connected);
  void tryOne(const std::string& name, const Invite& invite);

  std::vector<hardware::DeclaredNode> nodes_;  // does not change
  mutable std::mutex mutex_;                   // guards what follows
  std::condition_variable changed_;
  std::map<std::string, Waiting> waiting_;  // those with an address, by name
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tracesmith::cluster
