// What an agent answers when its master, or somebody who asks the agent itself, wants to know about processes.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "cluster/api.hpp"
#include "hardware/latest.hpp"

namespace tracesmith::cluster {

/// What is known of the node. Thread safe.
class ProcessLook {
 public:
  ProcessLook(std::string node, std::string root, std::string ring_folder, const hardware::Latest& latest)
      : node_(std::move(node)), root_(std::move(root)), ring_folder_(std::move(ring_folder)), latest_(latest) {}
  NodeProcesses answer(const ProcessQuery& query);

 private:
  const std::string node_, root_, ring_folder_;
  const hardware::Latest& latest_;
  std::mutex mutex_;  // one look at a time: whoever asks often does not load the node more
};

/// Answers questions one after the other in a thread of its own, so that what the link carries does not wait.
class AnswerDesk {
 public:
  using Reply = std::function<void(uint64_t id, const NodeProcesses& answer)>;
  AnswerDesk(ProcessLook& look, Reply reply);
  ~AnswerDesk();
  /// Of too many that wait the oldest is dropped: who asked it has waited longest.
  void put(uint64_t id, ProcessQuery query);

 private:
  void loop();

  ProcessLook& look_;
  const Reply reply_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::pair<uint64_t, ProcessQuery>> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tracesmith::cluster
