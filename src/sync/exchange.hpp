// Our own time exchange: a datagram there, a datagram back, four timestamps. Datagrams, because a stream would queue
// them behind data; the kernel's receive time where it gives one, because a busy machine wakes us late.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sync/clock_fit.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::sync {

/// A clock in ns. Tests put in one that is off; the real one is rawClock().
using Clock = std::function<int64_t()>;

/// Answers exchanges with the reference clock. Only those that know the key are answered.
class ExchangeServer {
 public:
  /// `host` is an address to bind to; port 0: any.
  static Result<std::unique_ptr<ExchangeServer>> start(const std::string& host, uint16_t port, uint64_t key,
                                                       Clock reference);
  ~ExchangeServer();

  uint16_t port() const { return port_; }
  uint64_t answered() const { return answered_; }

 private:
  ExchangeServer() = default;
  void loop();
  /// False: nothing waits, or what came is no request.
  bool answerOne();

  int socket_ = -1, wake_[2] = {-1, -1};
  uint16_t port_ = 0;
  uint64_t key_ = 0;
  Clock reference_;
  std::atomic<uint64_t> answered_{0};
  std::thread thread_;
};

/// Asks a server. Not thread safe.
class ExchangeClient {
 public:
  /// `interface`: the network interface that is used; empty: the kernel chooses.
  static Result<std::unique_ptr<ExchangeClient>> connect(const std::string& host, uint16_t port, uint64_t key,
                                                         Clock local, const std::string& interface = {});
  ~ExchangeClient();

  /// Up to `count` exchanges, one after another; those whose answer does not come within the time are left out.
  std::vector<Exchange> burst(int count, int timeout_ms);

 private:
  ExchangeClient() = default;

  int socket_ = -1;
  uint64_t key_ = 0, next_ = 0;
  Clock local_;
};

}  // namespace tracesmith::sync
