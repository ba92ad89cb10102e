// The ranks of launched jobs on this node: each launch is a call to the master, which says what to run and gets what
// the ranks print. When the call ends, for whatever reason, its ranks end.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cluster/agent/outward.hpp"
#include "cluster/api.hpp"

namespace tracesmith::cluster {

/// Thread safe.
class RankHost {
 public:
  struct Options {
    bool allowed = false;  ///< --allow-launch
    std::string node, ring_folder;
    access::SecurityOptions security;
    Outward* outward = nullptr;  ///< how masters are reached; outlives this
    /// What was started, or why not.
    std::function<void(const std::string& what, const Status& outcome)> audit;
  };
  explicit RankHost(Options options);
  /// Ends all ranks.
  ~RankHost();

  /// The master at this address has a launch for this node. Returns at once.
  void offer(const std::string& master, const std::string& id);

 private:
  struct Call;
  void run(Call& call);

  const Options options_;
  std::mutex mutex_;  // guards what follows
  std::list<std::unique_ptr<Call>> calls_;
};

}  // namespace tracesmith::cluster
