// The master behind the page: its client, and what it last said of itself.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "cluster/api.hpp"

namespace tracesmith::server {

/// Thread safe.
class ClusterView {
 public:
  explicit ClusterView(std::unique_ptr<cluster::Client> client) : client_(std::move(client)) {}

  cluster::Client& client() { return *client_; }
  /// As it was at most a moment ago, its nodes in the order people expect.
  Result<std::shared_ptr<const cluster::ClusterStatus>> status();
  Result<cluster::SessionInfo> session(const std::string& id);
  /// Something was changed: the next status() asks again.
  void changed();

 private:
  const std::unique_ptr<cluster::Client> client_;
  std::mutex mutex_;                                      // guards what follows
  std::shared_ptr<const cluster::ClusterStatus> status_;  // shared with those who read it
  std::chrono::steady_clock::time_point asked_{};
};

}  // namespace tracesmith::server
