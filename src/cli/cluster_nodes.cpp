// tracesmith cluster add-node, nodes, status.
#include <algorithm>
#include <cstdio>

#include "base/count.hpp"
#include "base/text.hpp"
#include "cli/cluster.hpp"
#include "cli/terminal.hpp"
#include "model/travel_json.hpp"

namespace tracesmith::cli {
namespace {

using cluster::ClusterStatus;
using cluster::NodeStatus;

std::string stateOf(const NodeStatus& n) {
  if (!n.healthy) return n.silent_s ? "silent for " + humanNs(*n.silent_s * 1e9) : "not seen";
  return n.connected ? "connected" : "away";
}

void printNodes(const ClusterStatus& status) {
  std::vector<std::vector<std::string>> rows = {{"node", "state", "GPUs", "processes", "clock offset", "drift ppm",
                                                 "error bound", "spooled", "stored", "events", "lost"}};
  char drift[32];
  for (const NodeStatus& n : status.nodes) {
    std::snprintf(drift, sizeof drift, "%.3f", n.clock ? n.clock->drift_ppm : 0);
    rows.push_back({n.node, stateOf(n), std::to_string(n.gpus.size()), std::to_string(n.processes),
                    n.clock ? humanNs(static_cast<double>(n.clock->offset_ns)) : "unknown", n.clock ? drift : "unknown",
                    n.clock ? humanNs(static_cast<double>(n.clock->bound_ns)) : "unknown", humanBytes(n.spool_bytes),
                    humanBytes(n.stored_bytes), humanCount(n.stored_events), humanCount(n.losses)});
  }
  // A column that only clusters with prices have.
  const bool priced = std::any_of(status.nodes.begin(), status.nodes.end(),
                                  [](const NodeStatus& n) { return n.price_per_hour.has_value(); });
  if (priced) {
    rows[0].push_back("price/hour");
    for (size_t i = 0; i < status.nodes.size(); ++i) {
      char price[32] = "unknown";
      if (status.nodes[i].price_per_hour) std::snprintf(price, sizeof price, "%.2f", *status.nodes[i].price_per_hour);
      rows[i + 1].push_back(price);
    }
  }
  std::printf("%s", tableText(rows).c_str());
  for (const NodeStatus& n : status.nodes)
    if (!n.problem.empty()) warn(n.node + ": " + n.problem);
}

void printExports(const ClusterStatus& status) {
  if (status.exports.empty()) return;
  std::vector<std::vector<std::string>> rows = {{"metrics to", "address", "sent", "repeated", "dropped", "waiting"}};
  for (const model::ExportStatus& e : status.exports)
    rows.push_back({e.sink, e.address, humanCount(e.sent), humanCount(e.retries), humanCount(e.dropped),
                    humanCount(e.waiting) + " (" + humanBytes(e.waiting_bytes) + ")"});
  std::printf("%s", tableText(rows).c_str());
  for (const model::ExportStatus& e : status.exports)
    if (!e.problem.empty()) warn(e.sink + ": " + e.problem);
}

int nodes(const ClientCommand& o, bool all) {
  Result<std::unique_ptr<cluster::Client>> client = o.connect();
  if (!client) return fail(client.status());
  Result<ClusterStatus> status = (*client)->status();
  if (!status) return fail(status.status());
  if (o.json) {
    std::string text;
    JsonWriter w(text);
    if (all) {
      writeJson(w, *status);
    } else {
      w.beginObject().key("nodes").beginArray();
      for (const NodeStatus& n : status->nodes) writeJson(w, n);
      w.endArray().endObject();
    }
    std::printf("%s\n", text.c_str());
    return 0;
  }
  if (status->nodes.empty())
    std::printf("no nodes yet; start agents with `tracesmith cluster agent --master HOST:PORT`\n");
  else
    printNodes(*status);
  if (!all) return 0;
  size_t recording = 0, healthy = 0;
  for (const cluster::SessionInfo& s : status->sessions) recording += s.state == model::SessionState::recording;
  for (const NodeStatus& n : status->nodes) healthy += n.healthy;
  std::printf("%s, %zu healthy; %s, %zu recording; %s stored\n", counted(status->nodes.size(), "node").c_str(), healthy,
              counted(status->sessions.size(), "session").c_str(), recording, humanBytes(status->stored_bytes).c_str());
  printExports(*status);
  if (!status->problem.empty()) warn("the master cannot store data: " + status->problem);
  return 0;
}

int addNode(const ClientCommand& o, const std::string& address) {
  Result<std::unique_ptr<cluster::Client>> client = o.connect();
  if (!client) return fail(client.status());
  Result<std::string> node = (*client)->addNode(address);
  if (!node) return fail(node.status());
  if (o.json) {
    std::string text;
    JsonWriter(text).beginObject().field("node", *node).endObject();
    std::printf("%s\n", text.c_str());
  } else {
    std::printf("node %s was invited\n", node->c_str());
  }
  return 0;
}

}  // namespace

void addClusterNodes(Command& cluster) {
  {
    auto o = std::make_shared<ClientCommand>();
    auto address = std::make_shared<std::string>();
    Command command = cluster.command("add-node", "Have the master connect to an agent and add its node");
    command.option("--address", *address, "Address of the agent").required().type("HOST:PORT");
    o->add(command);
    command.footer("Example:  tracesmith cluster add-node --address node7:50052");
    command.run([o, address] { return addNode(*o, *address); });
  }
  for (bool all : {false, true}) {
    auto o = std::make_shared<ClientCommand>();
    Command command = all ? cluster.command("status", "Show nodes, clocks, sessions and the store")
                          : cluster.command("nodes", "List the nodes of the cluster");
    o->add(command);
    command.footer(all ? "Example:  tracesmith cluster status --json" : "Example:  tracesmith cluster nodes");
    command.run([o, all] { return nodes(*o, all); });
  }
}

}  // namespace tracesmith::cli
