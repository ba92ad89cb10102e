#include <algorithm>
#include <set>
#include <unordered_map>

#include "trace/export/flame.hpp"

namespace tracesmith::trace {
namespace {

constexpr std::string_view kNoFrames = "(no Python code)";

/// Of an installed library, the path below its folder.
std::string_view shortPath(std::string_view path) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"})
    if (const size_t at = path.rfind(folder); at != std::string_view::npos) return path.substr(at + folder.size());
  if (const size_t at = path.find("/lib/python3"); at != std::string_view::npos)
    if (const size_t end = path.find('/', at + 5); end != std::string_view::npos) return path.substr(end + 1);
  return path;
}

/// "step (/lib/python3.11/threading.py:12)" → "step (threading.py)".
std::string shown(const std::string& frame, bool lines) {
  const size_t open = frame.rfind(" (");
  if (isNativeFrame(frame) || open == std::string::npos || !frame.ends_with(')')) return frame;
  std::string_view place = std::string_view(frame).substr(open + 2, frame.size() - open - 3);
  std::string_view line;
  if (const size_t colon = place.rfind(':'); colon != std::string_view::npos && colon + 1 < place.size() &&
                                             std::all_of(place.begin() + static_cast<std::ptrdiff_t>(colon) + 1,
                                                         place.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    line = place.substr(colon);
    place = place.substr(0, colon);
  }
  return frame.substr(0, open + 2) + std::string(shortPath(place)) + (lines ? std::string(line) : "") + ")";
}

std::string rankText(const StackCounts::Process& p) {
  return p.rank ? "rank " + std::to_string(*p.rank) : "process " + std::to_string(p.pid);
}

std::string threadText(const StackCounts::Thread& t) {
  return "thread " + (t.tid ? std::to_string(*t.tid) : "?") + (t.name.empty() ? "" : " " + t.name);
}

class Builder {
 public:
  Builder(const StackCounts& counts, const FlameOptions& options) : counts_(counts), o_(options) {
    tree_.nodes.emplace_back();
    tree_.compared = options.compare;
    names_by_frame_.resize(counts.table.frames(), UINT32_MAX);
    name("all");
  }

  Result<FlameTree> build() {
    TS_TRY(checkRanks());
    const std::vector<bool> idle = idleThreads();
    for (const auto& [key, count] : counts_.counts) {
      const uint32_t thread = StackCounts::threadOf(key);
      const StackCounts::Process& process = counts_.processes[counts_.threads[thread].process];
      if (idle[thread] || !wanted(process)) continue;
      add(thread, StackCounts::stackOf(key), values(process, count));
    }
    for (size_t i = 0; i < idle.size(); ++i)
      tree_.idle_threads += idle[i] && wanted(counts_.processes[counts_.threads[i].process]);
    for (size_t i = tree_.nodes.size(); i-- > 0;) {  // callers come before those that they call
      FlameNode& n = tree_.nodes[i];
      for (size_t k = 0; k < 2; ++k) {
        n.total[k] += n.self[k];
        if (i > 0) tree_.nodes[n.parent].total[k] += n.total[k];
      }
    }
    if (tree_.root().all() == 0) return Status::notFound("there are no such samples");
    for (FlameNode& n : tree_.nodes)
      std::sort(n.below.begin(), n.below.end(), [&](uint32_t a, uint32_t b) {
        return tree_.names[tree_.nodes[a].name] < tree_.names[tree_.nodes[b].name];
      });
    if (o_.compare)
      for (const StackCounts::Process& p : counts_.processes) {
        if (p.rank == o_.compare->first) tree_.looks[0] += static_cast<double>(p.looks);
        if (p.rank == o_.compare->second) tree_.looks[1] += static_cast<double>(p.looks);
      }
    return std::move(tree_);
  }

 private:
  Status checkRanks() const {
    std::vector<int64_t> ranks = o_.ranks;
    if (o_.compare) ranks.insert(ranks.end(), {o_.compare->first, o_.compare->second});
    for (const int64_t r : ranks)
      if (std::none_of(counts_.processes.begin(), counts_.processes.end(),
                       [&](const StackCounts::Process& p) { return p.rank == r; }))
        return Status::notFound("there are no samples of rank " + std::to_string(r));
    return {};
  }

  bool wanted(const StackCounts::Process& p) const {
    if (o_.compare) return p.rank == o_.compare->first || p.rank == o_.compare->second;
    return o_.ranks.empty() || (p.rank && std::find(o_.ranks.begin(), o_.ranks.end(), *p.rank) != o_.ranks.end());
  }

  /// Those that stood at one place and never ran, but for the first one of a process.
  std::vector<bool> idleThreads() const {
    std::vector<bool> idle(counts_.threads.size(), false);
    if (o_.idle) return idle;
    std::vector<uint32_t> stacks(idle.size());
    std::vector<bool> busy(idle.size());
    for (const auto& [key, count] : counts_.counts) {
      const uint32_t thread = StackCounts::threadOf(key);
      ++stacks[thread];
      if (count.samples[StackCounts::on_cpu] > 0) busy[thread] = true;
    }
    std::set<size_t> seen;
    for (size_t i = 0; i < idle.size(); ++i)
      idle[i] = !seen.insert(counts_.threads[i].process).second && !busy[i] && stacks[i] <= 1;
    return idle;
  }

  std::array<uint64_t, 2> values(const StackCounts::Process& p, const StackCounts::Count& c) const {
    uint64_t on_cpu = c.samples[StackCounts::on_cpu];
    uint64_t waiting = c.samples[StackCounts::waiting] + c.samples[StackCounts::unknown];
    if (o_.only) (*o_.only == StackCounts::on_cpu ? waiting : on_cpu) = 0;
    if (!o_.compare) return {on_cpu, waiting};
    const uint64_t all = on_cpu + waiting;
    return {p.rank == o_.compare->first ? all : 0, p.rank == o_.compare->second ? all : 0};
  }

  uint32_t name(const std::string& text) {
    const auto [at, added] = numbers_.try_emplace(text, static_cast<uint32_t>(tree_.names.size()));
    if (added) tree_.names.push_back(text);
    return at->second;
  }

  uint32_t nameOf(uint32_t frame) {
    uint32_t& known = names_by_frame_[frame];
    if (known == UINT32_MAX) known = name(shown(counts_.table.text(frame), o_.lines));
    return known;
  }

  uint32_t below(uint32_t parent, uint32_t name) {
    if (parent != 0 && tree_.nodes[parent].name == name) return parent;  // it calls itself
    const auto [at, added] =
        places_.try_emplace(uint64_t{parent} << 32 | name, static_cast<uint32_t>(tree_.nodes.size()));
    if (added) {
      tree_.nodes[parent].below.push_back(at->second);
      FlameNode& node = tree_.nodes.emplace_back();
      node.name = name;
      node.parent = parent;
    }
    return at->second;
  }

  void add(uint32_t thread, uint32_t stack, const std::array<uint64_t, 2>& samples) {
    if (samples[0] + samples[1] == 0) return;
    uint32_t node = 0;
    const StackCounts::Thread& t = counts_.threads[thread];
    if (o_.per_rank) node = below(node, name(rankText(counts_.processes[t.process])));
    if (o_.per_thread) node = below(node, name(threadText(t)));
    const std::vector<uint32_t> frames = counts_.table.framesOf(stack);
    for (const uint32_t f : frames) node = below(node, nameOf(f));
    if (frames.empty()) node = below(node, name(std::string(kNoFrames)));
    for (size_t k = 0; k < 2; ++k) tree_.nodes[node].self[k] += samples[k];
  }

  const StackCounts& counts_;
  const FlameOptions& o_;
  FlameTree tree_;
  std::vector<uint32_t> names_by_frame_;
  std::unordered_map<std::string, uint32_t> numbers_;
  std::unordered_map<uint64_t, uint32_t> places_;  // parent and name → node
};

}  // namespace

Result<FlameTree> flameTree(const StackCounts& counts, const FlameOptions& options) {
  return Builder(counts, options).build();
}

std::vector<FunctionTime> functionTimes(const FlameTree& tree) {
  std::vector<FunctionTime> all(tree.names.size());
  for (uint32_t i = 0; i < all.size(); ++i) all[i].name = i;
  for (uint32_t i = 1; i < tree.nodes.size(); ++i) {
    const FlameNode& n = tree.nodes[i];
    bool inner = false;  // of a function that is further out, too: its time is in there already
    for (uint32_t p = n.parent; p != 0 && !inner; p = tree.nodes[p].parent) inner = tree.nodes[p].name == n.name;
    for (size_t k = 0; k < 2; ++k) {
      all[n.name].self[k] += n.self[k];
      if (!inner) all[n.name].total[k] += n.total[k];
    }
  }
  all.erase(all.begin());  // the root
  return all;
}

}  // namespace tracesmith::trace
