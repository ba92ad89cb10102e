#include "analysis/verdict/graph_modules.hpp"

#include <algorithm>
#include <unordered_map>

#include "analysis/rows/each_row.hpp"
#include "model/hook_names.hpp"
#include "trace/rows.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr size_t kMostLaunches = 4096;  // of one process: enough for a median

/// A node, from when it was made: another one may have its id later.
struct Node {
  int64_t ts;
  const std::vector<uint32_t>* modules;  // the outermost first
  bool backward;
};

class Nodes {
 public:
  Status read(const Reader& reader, const NameNumbers& names, ModuleNames& modules) {
    TS_TRY(eachRow<GraphNodeRow>(reader, names,
                                 {graph_nodes::ts, graph_nodes::rank, graph_nodes::pid, graph_nodes::graph_node,
                                  graph_nodes::modules, graph_nodes::phase},
                                 [&](const GraphNodeRow& row, auto&&) {
                                   if (row.ts == kNull || row.graph_node == kNull) return;
                                   const bool backward =
                                       row.phase != kNull && names.text(static_cast<uint32_t>(row.phase)) == "backward";
                                   nodes_[processOf(row.rank, row.pid)][row.graph_node].push_back(
                                       {row.ts, &pathOf(row.modules, names, modules), backward});
                                 }));
    for (auto& [process, by_id] : nodes_)
      for (auto& [id, made] : by_id)
        std::stable_sort(made.begin(), made.end(), [](const Node& a, const Node& b) { return a.ts < b.ts; });
    return {};
  }
  bool empty() const { return nodes_.empty(); }

  /// What a kernel was captured in; nullptr: not known.
  const Node* find(int64_t process, int64_t id, int64_t ts) const {
    auto of_process = nodes_.find(process);
    if (of_process == nodes_.end()) return nullptr;
    auto made = of_process->second.find(id);
    if (made == of_process->second.end()) return nullptr;
    auto after = std::upper_bound(made->second.begin(), made->second.end(), ts,
                                  [](int64_t at, const Node& n) { return at < n.ts; });
    return after == made->second.begin() ? nullptr : &*std::prev(after);
  }

 private:
  const std::vector<uint32_t>& pathOf(int64_t name, const NameNumbers& names, ModuleNames& modules) {
    auto [it, fresh] = paths_.try_emplace(name);
    if (!fresh || name == kNull) return it->second;
    for (std::string_view text = names.text(static_cast<uint32_t>(name)); !text.empty();) {
      const size_t end = std::min(text.find(model::kInside), text.size());
      const uint32_t module = modules.add(text.substr(0, end));
      // One that is called inside of itself counts once.
      if (std::find(it->second.begin(), it->second.end(), module) == it->second.end()) it->second.push_back(module);
      text.remove_prefix(std::min(end + model::kInside.size(), text.size()));
    }
    return it->second;
  }

  std::map<int64_t, std::unordered_map<int64_t, std::vector<Node>>> nodes_;  // by process, by id
  std::map<int64_t, std::vector<uint32_t>> paths_;                           // by name
};

}  // namespace

int64_t Replays::stepAt(int64_t ts) const {
  auto after =
      std::upper_bound(steps.begin(), steps.end(), ts, [](int64_t at, const Step& step) { return at < step.ts; });
  return after == steps.begin() || std::prev(after)->end <= ts ? kNull : std::prev(after)->step;
}

Status readReplays(const Reader& reader, const NameNumbers& names, const std::vector<uint8_t>& comm,
                   ModuleNames& modules, std::map<int64_t, Replays>& out) {
  Nodes nodes;
  TS_TRY(nodes.read(reader, names, modules));
  if (nodes.empty()) return {};
  std::map<int64_t, std::vector<Replays::Step>> steps;  // by process
  TS_TRY(eachRow<StepRow>(
      reader, names, {steps::ts, steps::dur, steps::rank, steps::pid, steps::step}, [&](const StepRow& row, auto&&) {
        int64_t end;
        if (row.step != kNull && row.ts != kNull && row.dur != kNull && !__builtin_add_overflow(row.ts, row.dur, &end))
          steps[processOf(row.rank, row.pid)].push_back({row.ts, end, row.step});
      }));
  Selection selection;
  selection.types = 0;
  for (EventType type : {EventType::kernel, EventType::memcpy, EventType::memset})
    selection.types |= 1ull << static_cast<int>(type);
  RowCursor<EventRow> rows(reader,
                           {events::ts, events::dur, events::name, events::rank, events::pid, events::correlation,
                            events::step, events::graph, events::graph_node},
                           std::move(selection), &names);
  while (rows.next()) {
    const EventRow& row = rows.row();
    if (row.graph_node == kNull || row.ts == kNull || row.dur == kNull || row.correlation == kNull) continue;
    if (row.name != kNull && comm[static_cast<size_t>(row.name)]) continue;
    const int64_t process = processOf(row.rank, row.pid);
    const Node* node = nodes.find(process, row.graph_node, row.ts);
    if (!node || node->modules->empty()) continue;
    std::map<int64_t, Replay>& launches = out[process].launches;
    auto replay = launches.find(row.correlation);
    if (replay == launches.end()) {
      if (launches.size() >= kMostLaunches) continue;
      replay = launches.try_emplace(row.correlation, Replay{row.step, 0, row.graph, {}}).first;
    }
    for (uint32_t module : *node->modules) replay->second.parts[{module, node->backward}] += row.dur;
  }
  for (auto& [process, replays] : out) {
    std::map<int64_t, int64_t> turns;  // by graph
    for (auto& [correlation, replay] : replays.launches) replay.turn = turns[replay.graph]++;
    replays.steps = std::move(steps[process]);
    std::sort(replays.steps.begin(), replays.steps.end(),
              [](const Replays::Step& a, const Replays::Step& b) { return a.ts < b.ts; });
  }
  return rows.status();
}

}  // namespace tracesmith::analysis
