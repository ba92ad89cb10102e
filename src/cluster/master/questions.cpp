#include "cluster/master/questions.hpp"

#include "base/text.hpp"
#include "cluster/master/master.hpp"

namespace tracesmith::cluster {

ClusterProcesses Questions::ask(const ProcessQuery& query, const Asked& nodes, std::chrono::milliseconds wait) {
  const auto deadline = std::chrono::steady_clock::now() + wait;
  uint64_t id = 0;
  {
    std::lock_guard lock(mutex_);
    id = ++last_;
    Open& open = open_[id];
    for (const auto& [name, link] : nodes) {
      NodeProcesses& answer = open.answers.emplace_back();
      answer.node = name;
      answer.problem = "it is not connected";
      if (!link) continue;
      answer.problem = "it did not answer within " + humanNs(static_cast<double>(wait.count()) * 1e6);
      open.missing.emplace(name, open.answers.size() - 1);
    }
  }
  for (const auto& [name, link] : nodes)
    if (link) link->sendQuestion(id, query);
  std::unique_lock lock(mutex_);
  Open& open = open_[id];
  changed_.wait_until(lock, deadline, [&] { return closed_ || open.missing.empty(); });
  ClusterProcesses all;
  all.nodes = std::move(open.answers);
  open_.erase(id);
  return all;
}

void Questions::answer(const std::string& node, uint64_t id, NodeProcesses answer) {
  std::lock_guard lock(mutex_);
  const auto open = open_.find(id);
  if (open == open_.end()) return;
  const auto missing = open->second.missing.find(node);
  if (missing == open->second.missing.end()) return;
  answer.node = node;
  for (Stacks& s : answer.stacks) s.node = node;
  open->second.answers[missing->second] = std::move(answer);
  open->second.missing.erase(missing);
  changed_.notify_all();
}

void Questions::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace tracesmith::cluster
