#include "cluster/agent/answers.hpp"

#include "process/look.hpp"

namespace tracesmith::cluster {
namespace {

constexpr size_t kMostWaiting = 16;

}  // namespace

NodeProcesses ProcessLook::answer(const ProcessQuery& query) {
  std::lock_guard lock(mutex_);
  capture::ProcessesNow recorded(ring_folder_);
  NodeProcesses answer = process::lookAt(root_, query, recorded.read(), [this] { return latest_.state(); });
  answer.node = node_;
  for (Stacks& s : answer.stacks) s.node = node_;
  return answer;
}

AnswerDesk::AnswerDesk(ProcessLook& look, Reply reply) : look_(look), reply_(std::move(reply)) {
  thread_ = std::thread([this] { loop(); });
}

AnswerDesk::~AnswerDesk() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AnswerDesk::put(uint64_t id, ProcessQuery query) {
  {
    std::lock_guard lock(mutex_);
    waiting_.emplace_back(id, std::move(query));
    if (waiting_.size() > kMostWaiting) waiting_.pop_front();
  }
  changed_.notify_all();
}

void AnswerDesk::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const auto [id, query] = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    reply_(id, look_.answer(query));
    lock.lock();
  }
}

}  // namespace tracesmith::cluster
