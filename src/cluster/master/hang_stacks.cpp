#include "cluster/master/hang_stacks.hpp"

#include <algorithm>
#include <set>

#include "process/groups.hpp"

namespace tracesmith::cluster {
namespace {

constexpr size_t kMostCulprits = 32;
constexpr int64_t kAgainNs = 5'000'000'000;

}  // namespace

std::optional<ProcessQuery> HangStacks::question(const HangVerdict& verdict, int64_t now_ns) {
  if (verdict.state != HangState::hang && verdict.state != HangState::slow) {
    asked_.clear();
    pids_.clear();
    stacks_.clear();
    return std::nullopt;
  }
  std::set<std::string> nodes;
  std::set<int64_t> ranks, pids;
  bool all_pids = true;
  for (const Culprit& c : verdict.culprits) {
    if (c.rank < 0 || c.node.empty() || ranks.size() >= kMostCulprits) continue;
    const auto known = asked_.find({c.node, c.rank});
    if (known != asked_.end() && now_ns - known->second < kAgainNs) continue;
    asked_[{c.node, c.rank}] = now_ns;
    nodes.insert(c.node);
    ranks.insert(c.rank);
    all_pids = all_pids && c.pid.has_value();
    if (!c.pid) continue;
    pids_[{c.node, c.rank}] = *c.pid;
    pids.insert(*c.pid);
  }
  if (ranks.empty()) return std::nullopt;
  ProcessQuery query;
  query.nodes.assign(nodes.begin(), nodes.end());
  // A process is meant, not whoever else has this rank; where one is not known, its rank has to do.
  if (all_pids)
    query.pids.assign(pids.begin(), pids.end());
  else
    query.ranks.assign(ranks.begin(), ranks.end());
  query.stacks = query.brief = true;
  return query;
}

void HangStacks::take(const ClusterProcesses& answer) {
  for (const NodeProcesses& node : answer.nodes)
    for (const Stacks& s : node.stacks) {
      bool known = false;
      for (const auto& [who, pid] : pids_)
        if (known = who.first == node.node && pid == s.pid; known) {
          stacks_[who] = s;
          stacks_[who].rank = who.second;
          break;
        }
      if (!known && s.rank && !pids_.contains({node.node, *s.rank})) stacks_[{node.node, *s.rank}] = s;
    }
}

void HangStacks::add(HangVerdict& verdict) const {
  for (Culprit& c : verdict.culprits) {
    const auto known = stacks_.find({c.node, c.rank});
    if (known == stacks_.end()) continue;
    c.stack = known->second;
    c.where = process::whereText(process::groupStacks({known->second}).at(0));
  }
}

std::string whereSentence(const HangVerdict& verdict) {
  for (const Culprit& c : verdict.culprits)
    if (!c.where.empty()) return ". Rank " + std::to_string(c.rank) + " is in " + c.where;
  return "";
}

}  // namespace tracesmith::cluster
