#include "server/handlers/trace_stacks.hpp"

#include <set>

#include "model/travel_json.hpp"
#include "trace/export/flame.hpp"

namespace tracesmith::server {

Answer stacksOf(const trace::Reader& reader, const Request& r) {
  trace::FlameOptions options;
  int64_t rank = 0, with = 0;
  const std::string one = r.get("rank"), other = r.get("with"), state = r.get("state");
  if ((!one.empty() && !parseRange(one, 0, INT32_MAX, rank)) ||
      (!other.empty() && !parseRange(other, 0, INT32_MAX, with)))
    return Answer::error(400, "'rank' and 'with' must be numbers of ranks");
  if (!other.empty() && (one.empty() || rank == with)) return Answer::error(400, "'with' compares with another 'rank'");
  if (!other.empty())
    options.compare = {rank, with};
  else if (!one.empty())
    options.ranks = {rank};
  if (!state.empty() && state != "on-cpu" && state != "waiting")
    return Answer::error(400, "'state' must be on-cpu or waiting");
  if (!state.empty()) options.only = state == "on-cpu" ? trace::StackCounts::on_cpu : trace::StackCounts::waiting;
  const Result<trace::StackCounts> counts = trace::readStacks(reader);
  if (!counts) return Answer::error(counts.status());
  const Result<trace::FlameTree> tree = trace::flameTree(*counts, options);
  if (!tree) return Answer::error(tree.status());
  model::FlameGraph graph;
  std::set<int64_t> ranks;
  for (const trace::StackCounts::Process& p : counts->processes)
    if (p.rank) ranks.insert(*p.rank);
  graph.ranks.assign(ranks.begin(), ranks.end());
  graph.names = tree->names;
  for (const trace::FlameNode& n : tree->nodes)
    graph.calls.push_back({n.name, n.parent, n.self[0], n.self[1], n.total[0], n.total[1]});
  if (tree->compared) {
    graph.looks_a = tree->looks[0];
    graph.looks_b = tree->looks[1];
  }
  graph.idle_threads = tree->idle_threads;
  return Answer::json(model::toJson(graph));
}

}  // namespace tracesmith::server
