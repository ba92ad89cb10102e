// What lies in what: rows of a window as a tree of names, with the time of each that nothing inside it takes.
#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "model/travel_json.hpp"
#include "server/timeline/timeline.hpp"

namespace tracesmith::server {
namespace {

constexpr uint64_t kMostEvents = 3'000'000;
constexpr int64_t kLeastPart = 4000;  // what is a smaller part of its tree cannot be seen
constexpr size_t kNone = SIZE_MAX;
constexpr auto kRange = static_cast<uint8_t>(trace::EventType::gpu_annotation);

constexpr uint32_t kAnyStep = 0x3FFFFFFF;  // instead of the names that steps have by their numbers

/// "ProfilerStep#12", "step 12".
bool namesStep(std::string_view name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  return digits < name.size() && (name.substr(0, digits) == "ProfilerStep#" || name.substr(0, digits) == "step ");
}

struct Node {
  size_t parent;
  uint32_t name;
  uint8_t type;
  uint64_t count = 0;
  int64_t total = 0, inside = 0;
};

class Tree {
 public:
  size_t of(size_t parent, uint32_t name, uint8_t type) {
    const auto [it, added] = numbers_.try_emplace({parent, name, type}, nodes_.size());
    if (added) nodes_.push_back({.parent = parent, .name = name, .type = type});
    return it->second;
  }
  void add(size_t node, int64_t dur) {
    Node& n = nodes_[node];
    ++n.count;
    if (n.type == kRange) return;
    n.total += dur;
    if (n.parent != kNone) nodes_[n.parent].inside += dur;
  }
  /// A range of a GPU is as long as the work in it: the GPU may be idle between.
  void sumRanges() {
    for (size_t i = nodes_.size(); i-- > 0;) {
      Node& n = nodes_[i];
      if (n.type != kRange) continue;
      n.total = n.inside;
      if (n.parent != kNone) nodes_[n.parent].inside += n.total;
    }
  }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  using Key = std::tuple<size_t, uint32_t, uint8_t>;
  struct Hash {
    size_t operator()(const Key& k) const {
      const auto& [parent, name, type] = k;
      return ((parent * 0x9E3779B97F4A7C15ull) ^ name) * 0xBF58476D1CE4E5B9ull >> 8 ^ type;
    }
  };
  std::unordered_map<Key, size_t, Hash> numbers_;
  std::vector<Node> nodes_;
};

/// What its rows are shown under. Collectives and steps are left out: their time is that of kernels and threads too.
const char* headingOf(TrackKind kind) {
  switch (kind) {
    case TrackKind::stream:
    case TrackKind::gpu_ranges:
      return "GPU";
    case TrackKind::thread:
    case TrackKind::python:
      return "threads";
    case TrackKind::stacks:
      return "stacks";
    case TrackKind::steps:
    case TrackKind::collectives:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

Result<std::string> Timeline::flame(const TileQuery& q) {
  // Tracks whose rows lie in each other: ranges of a stream are around its kernels, Python's frames around operators.
  std::map<std::string, std::map<std::tuple<uint32_t, int64_t, int64_t, int64_t, bool>, std::vector<uint32_t>>>
      families;
  std::vector<bool> wanted(index_->tracks.size());
  uint64_t events = 0;
  for (uint32_t t : q.tracks) {
    const TrackKey& k = index_->tracks[t].key;
    const char* heading = headingOf(k.kind);
    if (!heading || (k.kind == TrackKind::thread && isOtherThread(k.minor))) continue;
    wanted[t] = true;
    events += eventsIn(index_->tracks[t], q.from, q.to);
    families[heading][{k.node, k.process, k.major, k.minor, k.kind == TrackKind::stacks}].push_back(t);
  }
  if (events > kMostEvents)
    return Status::invalid("too many events for a flame graph (" + std::to_string(events) + ", at most " +
                           std::to_string(kMostEvents) + "): select a shorter time or fewer tracks");
  std::vector<std::vector<Slice>> found = slices(q, wanted);
  std::unordered_map<uint32_t, uint32_t> shown_as;
  auto shownAs = [&](uint32_t name) {
    const auto [it, added] = shown_as.try_emplace(name, name);
    if (added && namesStep(rowName(names_, name))) it->second = kAnyStep;
    return it->second;
  };

  model::TimelineFlame out;
  out.span_ns = q.to - q.from;
  for (const auto& [heading, groups] : families) {
    Tree tree;
    for (const auto& [key, tracks] : groups) {
      std::vector<Slice> list;
      for (uint32_t t : tracks) {
        list.insert(list.end(), found[t].begin(), found[t].end());
        found[t] = {};
      }
      for (Slice& s : list) {
        const int64_t end = std::min(s.ts + s.dur, q.to);
        s.ts = std::max(s.ts, q.from);
        s.dur = std::max<int64_t>(0, end - s.ts);
      }
      std::sort(list.begin(), list.end(), [&](const Slice& a, const Slice& b) {
        return std::tuple(a.ts, -a.dur, a.type != kRange, a.summary, a.row) <
               std::tuple(b.ts, -b.dur, b.type != kRange, b.summary, b.row);
      });
      std::vector<std::pair<int64_t, size_t>> around;  // end, node
      for (const Slice& s : list) {
        // What it only overlaps with is not around it.
        while (!around.empty() && (around.back().first <= s.ts || around.back().first < s.ts + s.dur))
          around.pop_back();
        const size_t node = tree.of(around.empty() ? kNone : around.back().second, shownAs(s.name), s.type);
        tree.add(node, s.dur);
        if (s.dur > 0) around.emplace_back(s.ts + s.dur, node);
      }
    }
    tree.sumRanges();
    const std::vector<Node>& nodes = tree.nodes();
    int64_t whole = 0;
    uint64_t count = 0;
    std::vector<std::vector<size_t>> below(nodes.size() + 1);  // the last: of nothing
    for (size_t i = 0; i < nodes.size(); ++i) {
      below[nodes[i].parent == kNone ? nodes.size() : nodes[i].parent].push_back(i);
      if (nodes[i].parent == kNone) whole += nodes[i].total, count += nodes[i].count;
    }
    if (nodes.empty()) continue;
    out.nodes.push_back({{}, heading, heading, count, whole, 0});
    std::vector<std::pair<size_t, size_t>> open{{nodes.size(), out.nodes.size() - 1}};  // node, its place in the answer
    while (!open.empty()) {
      const auto [at, place] = open.back();
      open.pop_back();
      std::vector<size_t>& list = below[at];
      std::sort(list.begin(), list.end(), [&](size_t a, size_t b) { return nodes[a].total > nodes[b].total; });
      for (size_t i : list) {
        const Node& n = nodes[i];
        if (n.total < whole / kLeastPart) {
          ++out.left_out;
          continue;
        }
        out.nodes.push_back({place, n.name == kAnyStep ? "steps" : rowName(names_, n.name), rowTypeName(n.type),
                             n.count, n.total, std::max<int64_t>(0, n.total - n.inside)});
        open.emplace_back(i, out.nodes.size() - 1);
      }
    }
  }
  return model::toJson(out);
}

}  // namespace tracesmith::server
