#include "cluster/agent/answers.hpp"

#include <algorithm>

#include "process/act.hpp"
#include "process/look.hpp"

namespace tracesmith::cluster {
namespace {

constexpr size_t kMostWaiting = 16;
constexpr double kLeastRate = 0.01, kMostRate = 1000;  // as `tracesmith sample` takes them

}  // namespace

NodeProcesses ProcessLook::answer(const ProcessQuery& asked, const std::atomic<bool>* stop) {
  ProcessQuery query = asked;
  if (query.action) query.action->timeout_s = std::clamp(query.action->timeout_s, 0.1, process::kMostSeconds);
  if (query.sample) query.sample->rate = std::clamp(query.sample->rate, kLeastRate, kMostRate);
  NodeProcesses answer;
  answer.node = o_.node;
  if ((query.action || query.locals) && !o_.allow_eval) {
    answer.problem = "its agent does not run code in processes or show their variables: start it with --allow-eval";
    return answer;
  }
  std::lock_guard lock(process::secondsOf(query) > 0 ? long_mutex_ : mutex_);
  capture::ProcessesNow recorded(o_.ring_folder);
  answer = process::lookAt(
      o_.root, query, recorded.read(), [this] { return latest_.state(); }, stop ? stop : &stop_);
  answer.node = o_.node;
  for (Stacks& s : answer.stacks) s.node = o_.node;
  return answer;
}

NodeProcesses ProcessLook::answerMaster(const ProcessQuery& query, const std::atomic<bool>* stop) {
  NodeProcesses found = answer(query, stop);
  if (o_.asked && query.brief && !(query.ranks.empty() && query.pids.empty())) o_.asked->put(found.stacks);
  if (o_.audit) o_.audit(query, outcomeOf(found));
  return found;
}

Status outcomeOf(const NodeProcesses& answer) {
  if (!answer.problem.empty()) return Status::invalid(answer.problem);
  for (const ActionOutcome& o : answer.outcomes)
    if (!o.problem.empty()) return Status::invalid(o.problem);
  return {};
}

AnswerDesk::AnswerDesk(ProcessLook& look, Reply reply) : look_(look), reply_(std::move(reply)) {
  short_thread_ = std::thread([this] { loop(short_); });
  long_thread_ = std::thread([this] { loop(long_); });
}

AnswerDesk::~AnswerDesk() {
  ended_ = true;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  short_thread_.join();
  long_thread_.join();
}

void AnswerDesk::put(uint64_t id, ProcessQuery query) {
  {
    std::lock_guard lock(mutex_);
    Waiting& waiting = process::secondsOf(query) > 0 ? long_ : short_;
    waiting.emplace_back(id, std::move(query));
    if (waiting.size() > kMostWaiting) waiting.pop_front();
  }
  changed_.notify_all();
}

void AnswerDesk::loop(Waiting& waiting) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !waiting.empty(); });
    if (stop_) return;
    const auto [id, query] = std::move(waiting.front());
    waiting.pop_front();
    lock.unlock();
    reply_(id, look_.answerMaster(query, &ended_));
    lock.lock();
  }
}

}  // namespace tracesmith::cluster
