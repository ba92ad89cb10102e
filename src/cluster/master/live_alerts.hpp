// Tells the outside about alerts: a webhook, a command. Never more than a few a minute, and all of it in the audit log.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/http_client.hpp"
#include "model/travel.hpp"

namespace tracesmith::cluster {

/// Thread safe. Sends from a thread of its own, so that nobody waits for a web server.
class AlertSender {
 public:
  /// What was done, to whom, and how it went.
  using Audit = std::function<void(const std::string& action, const std::string& what, const Status& outcome)>;

  /// `command`: a program and its arguments, parted by blanks; it gets the alert on its standard input. No shell.
  static Result<std::unique_ptr<AlertSender>> create(const std::string& webhook, const std::string& command,
                                                     Audit audit);
  ~AlertSender();

  void send(const model::Alert& alert, const model::HangVerdict& verdict);

 private:
  struct Message {
    std::string kind, json;
  };
  AlertSender() = default;
  void loop();

  std::optional<HttpUrl> webhook_;
  std::vector<std::string> command_;
  Audit audit_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Message> queue_;
  std::map<AlertKind, int64_t> last_ns_;  // sent, by kind of alert
  uint64_t left_out_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tracesmith::cluster
