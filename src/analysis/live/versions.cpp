#include "analysis/live/versions.hpp"

#include <algorithm>
#include <functional>
#include <tuple>

#include "base/count.hpp"

namespace tracesmith::analysis::live {
namespace {

constexpr int64_t kSettleNs = 3'000'000'000;  // the reports of all nodes have come some times
constexpr size_t kMostNamed = 16;             // nodes of a sentence

/// "ranks 0-3 and 6": what has one version.
std::string ranksText(std::vector<int32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] <= ranks[last] + 1) ++last;
    std::string part = ranks[i] < 0 ? "unknown" : std::to_string(ranks[i]);
    if (ranks[last] > ranks[i]) part += "-" + std::to_string(ranks[last]);
    parts.push_back(std::move(part));
    i = last + 1;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

std::string nodesText(const std::set<std::string>& nodes) {
  std::string text = nodes.size() == 1 ? "node " : "nodes ";
  size_t i = 0;
  for (const std::string& node : nodes) {
    if (i == kMostNamed) return text + " and " + std::to_string(nodes.size() - kMostNamed) + " more";
    text += (i == 0 ? "" : i + 1 == nodes.size() ? " and " : ", ") + node;
    ++i;
  }
  return text;
}

/// Who has which version of one thing.
struct Versions {
  std::map<std::string, std::vector<int32_t>> ranks;
  std::map<std::string, std::set<std::string>> nodes;
  size_t count() const { return ranks.empty() ? nodes.size() : ranks.size(); }
  std::string text(const std::string& what) const {
    std::string all;
    auto add = [&](const std::string& version, const std::string& who) {
      all += (all.empty() ? what + " " : ", ") + version + " on " + who;
    };
    for (const auto& [version, list] : ranks) add(version, ranksText(list));
    if (ranks.empty())
      for (const auto& [version, list] : nodes) add(version, nodesText(list));
    return all;
  }
};

}  // namespace

void VersionWatch::describe(const NodeDescription& node) { nodes_[node.node] = {node.driver, node.cuda, node.nccl}; }

void VersionWatch::forget(const std::string& node) {
  nodes_.erase(node);
  std::erase_if(processes_, [&](const auto& p) { return p.first.first == node; });
}

void VersionWatch::take(const NodeReport& report, int64_t now_ns) {
  std::set<int64_t> running;
  for (const ProcessReport& p : report.processes) {
    if (p.comms.empty() || (p.state != ProcessState::running && p.state != ProcessState::stopped)) continue;
    running.insert(p.pid);
    Process now{p.rank, p.torch, p.cuda, p.nccl, {}};
    for (const CommState& c : p.comms) now.comms.push_back(c.comm);
    std::sort(now.comms.begin(), now.comms.end());
    Seen& seen = processes_[{report.node, p.pid}];
    if (seen.since_ns == 0 || seen.process != now) seen.since_ns = now_ns;
    seen.process = std::move(now);
  }
  for (auto it = processes_.lower_bound({report.node, INT64_MIN});
       it != processes_.end() && it->first.first == report.node;)
    it = running.contains(it->first.second) ? std::next(it) : processes_.erase(it);
}

/// Processes that share a communicator, or have one in common with another of their job.
std::vector<VersionWatch::Job> VersionWatch::jobs() {
  std::map<uint64_t, uint64_t> parents;
  std::function<uint64_t(uint64_t)> root = [&](uint64_t comm) {
    uint64_t& parent = parents.try_emplace(comm, comm).first->second;
    return parent == comm ? comm : parent = root(parent);
  };
  for (const auto& [key, seen] : processes_)
    for (uint64_t comm : seen.process.comms) parents[root(comm)] = root(seen.process.comms.front());
  std::map<uint64_t, Job> jobs;
  for (auto it = processes_.begin(); it != processes_.end(); ++it)
    jobs[root(it->second.process.comms.front())].push_back(it);
  std::vector<Job> all;
  for (auto& [comm, job] : jobs) all.push_back(std::move(job));
  return all;
}

void VersionWatch::lookAt(const Job& job, int64_t now_ns, std::vector<Alert>& alerts) {
  // What a rank uses says more than what its node has. Where ranks say nothing, their nodes are compared.
  std::map<std::string, Versions> found;
  for (const auto& member : job) {
    const Process& p = member->second.process;
    const Installed& node = nodes_[member->first.first];
    for (const auto& [what, of_rank, of_node] : {std::tuple{"driver", std::string(), node.driver},
                                                 {"CUDA", p.cuda, node.cuda},
                                                 {"NCCL", p.nccl, node.nccl},
                                                 {"torch", p.torch, std::string()}}) {
      if (!of_rank.empty()) found[what].ranks[of_rank].push_back(p.rank);
      if (!of_node.empty()) found[what].nodes[of_node].insert(member->first.first);
    }
  }
  std::set<std::string> told, differing;
  for (const auto& member : job) told.insert(member->second.told.begin(), member->second.told.end());
  std::string text;
  for (const auto& [what, versions] : found) {
    if (versions.count() < 2) continue;
    text += (text.empty() ? "" : "; ") + versions.text(what);
    for (const auto& [version, who] : versions.ranks) differing.insert(what + " " + version);
    if (versions.ranks.empty())
      for (const auto& [version, who] : versions.nodes) differing.insert(what + " " + version);
  }
  if (!std::includes(told.begin(), told.end(), differing.begin(), differing.end())) {
    alerts.push_back(alertOf(now_ns, AlertKind::versions_differ,
                             "versions differ in a job of " + counted(job.size(), "rank") + ": " + text));
    told.insert(differing.begin(), differing.end());
  }
  for (const auto& member : job) member->second.told = told;
}

std::vector<Alert> VersionWatch::look(int64_t now_ns) {
  std::vector<Alert> alerts;
  for (const Job& job : jobs()) {
    int64_t since_ns = 0;
    for (const auto& member : job) since_ns = std::max(since_ns, member->second.since_ns);
    if (job.size() > 1 && now_ns - since_ns >= kSettleNs) lookAt(job, now_ns, alerts);
  }
  return alerts;
}

}  // namespace tracesmith::analysis::live
