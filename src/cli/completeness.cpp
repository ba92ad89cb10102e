#include "cli/completeness.hpp"

#include <algorithm>
#include <optional>

#include "base/count.hpp"
#include "base/text.hpp"

namespace tracesmith::cli {
namespace {

using model::NodeStatus;
using model::SessionInfo;
using model::SessionNode;

/// As the master finds it: by its id, or the last of that name.
const SessionInfo* find(const model::ClusterStatus& status, const std::string& name_or_id) {
  const SessionInfo* found = nullptr;
  for (const SessionInfo& s : status.sessions) {
    if (s.id == name_or_id) return &s;
    if (s.name == name_or_id && (!found || s.start_ns >= found->start_ns)) found = &s;
  }
  return found;
}

std::string secondsText(double seconds) { return humanNs(std::max(0.0, seconds) * 1e9); }

/// Of a node that is not heard.
std::string silence(const NodeStatus& node) {
  if (!node.problem.empty()) return node.problem;
  if (!node.silent_s) return "it is not connected";
  return "it was last heard " + secondsText(*node.silent_s) + " ago";
}

}  // namespace

Completeness completenessOf(const model::ClusterStatus& status, const std::string& session) {
  Completeness out;
  const SessionInfo* of = session.empty() ? nullptr : find(status, session);
  size_t nodes = 0;
  std::optional<int64_t> bound;
  for (const NodeStatus& node : status.nodes) {
    const SessionNode* part = nullptr;
    if (of) {
      for (const SessionNode& n : of->nodes)
        if (n.node == node.node) part = &n;
      if (!part) continue;
    }
    ++nodes;
    if (node.clock) bound = std::max(bound.value_or(0), node.clock->bound_ns);
    if (part && part->complete) continue;
    const bool ended = of && of->end_ns != 0 && of->end_ns < status.now_ns;
    if (!node.connected || !node.healthy)
      out.missing.push_back("node " + node.node + " is missing or incomplete: " + silence(node));
    else if (ended)
      out.missing.push_back("node " + node.node + " is late: it has not sent all of its data yet");
  }
  if (!status.problem.empty()) out.missing.push_back("the master stores nothing now: " + status.problem);
  out.summary = counted(nodes, "node", "nodes") + " asked, " +
                (out.missing.empty() ? "none failed or late" : std::to_string(out.missing.size()) + " failed or late");
  // A bound of each node against the master: two nodes are within twice that.
  if (bound) out.summary += "; clocks within " + humanNs(2.0 * static_cast<double>(*bound)) + " of each other";
  return out;
}

}  // namespace tracesmith::cli
