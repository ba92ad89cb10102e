// What an agent answers when its master, or somebody who asks the agent itself, wants to know about processes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "cluster/agent/asked_stacks.hpp"
#include "cluster/api.hpp"
#include "hardware/latest.hpp"

namespace tracesmith::cluster {

/// What is known of the node. Thread safe.
class ProcessLook {
 public:
  struct Options {
    std::string node, root, ring_folder;
    bool allow_eval = false;       ///< code in processes, and values of their variables
    AskedStacks* asked = nullptr;  ///< gets the stacks that a master asks for because its job hangs
    /// What a master had done goes into the audit log.
    std::function<void(const ProcessQuery& query, const Status& outcome)> audit = {};
  };
  ProcessLook(Options options, const hardware::Latest& latest) : o_(std::move(options)), latest_(latest) {}
  /// `stop`: what takes seconds ends once it is set; null: at the agent's end.
  NodeProcesses answer(const ProcessQuery& asked, const std::atomic<bool>* stop = nullptr);
  NodeProcesses answerMaster(const ProcessQuery& query, const std::atomic<bool>* stop);
  /// Samples that are being taken end now.
  void stop() { stop_ = true; }

 private:
  const Options o_;
  const hardware::Latest& latest_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;       // one look at a time: whoever asks often does not load the node more
  std::mutex long_mutex_;  // the same for what takes seconds
};

/// What was done, for the audit log.
Status outcomeOf(const NodeProcesses& answer);

/// Answers questions one after the other in a thread of its own, so that what the link carries does not wait. Those
/// that take seconds have another thread: a hang that is looked at meanwhile does not wait for them.
class AnswerDesk {
 public:
  using Reply = std::function<void(uint64_t id, const NodeProcesses& answer)>;
  AnswerDesk(ProcessLook& look, Reply reply);
  ~AnswerDesk();
  /// Of too many that wait the oldest is dropped: who asked it has waited longest.
  void put(uint64_t id, ProcessQuery query);

 private:
  using Waiting = std::deque<std::pair<uint64_t, ProcessQuery>>;
  void loop(Waiting& waiting);

  ProcessLook& look_;
  const Reply reply_;
  std::atomic<bool> ended_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Waiting short_, long_;
  bool stop_ = false;
  std::thread short_thread_, long_thread_;
};

}  // namespace tracesmith::cluster
