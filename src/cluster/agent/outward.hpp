// How an agent reaches its master: over the network interface that was named, or as the kernel chooses.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/temporary_folder.hpp"
#include "cluster/rpc/rpc.hpp"

namespace tracesmith::cluster {

/// gRPC cannot choose an interface. If one was named, it connects to a socket in a private folder instead, and what
/// comes there is passed on over the interface. Thread safe.
class Outward {
 public:
  /// Fails if there is no such interface; empty: the kernel chooses.
  static Result<std::unique_ptr<Outward>> create(const std::string& interface);
  /// Ends all connections.
  ~Outward();

  const std::string& interface() const { return interface_; }
  Result<std::shared_ptr<grpc::Channel>> open(const std::string& address, const access::SecurityOptions& security);

 private:
  struct Door;
  struct Passage;
  Outward() = default;
  Result<std::string> doorTo(const std::string& address);
  void serve(Door& door);
  void pass(Passage& passage, const std::string& address) const;

  std::string interface_;
  TemporaryFolder folder_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;                                    // guards what follows
  std::map<std::string, std::unique_ptr<Door>> doors_;  // by address
};

}  // namespace tracesmith::cluster
