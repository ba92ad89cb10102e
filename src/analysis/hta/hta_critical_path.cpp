#include "tracesmith/analysis/hta_critical_path.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "analysis/hta/hta.hpp"
#include "analysis/rows/phases.hpp"
#include "base/text.hpp"
#include "trace/rows.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

struct Event {
  int64_t ts, end;  // µs, as HTA rounds them
  uint32_t name;
  EventType type;
  int64_t tid, stream, correlation;
  int64_t wait_stream = kNull;  // of a Stream Wait Event: the stream it waits for
};

enum class EdgeKind : uint8_t { op, dependency, kernel, launch, kernel_kernel, sync };
constexpr const char* kKinds[] = {"operator", "dependency", "kernel", "launch", "kernel_kernel", "sync"};

struct Edge {
  uint32_t from;
  int64_t weight;
  EdgeKind kind;
};

int64_t numberAfter(std::string_view json, std::string_view key) {
  size_t at = json.find(key);
  if (at == json.npos) return kNull;
  at = json.find_first_of("-0123456789", at + key.size());
  if (at == json.npos) return kNull;
  int64_t value;
  const size_t end = std::min(json.find_first_not_of("-0123456789", at), json.size());
  return parseInt(json.substr(at, end - at), value) ? value : kNull;
}

bool isBlocking(std::string_view name) {
  static const std::set<std::string_view> kNames = {"cudaDeviceSynchronize",
                                                    "cudaStreamSynchronize",
                                                    "cudaEventQuery",
                                                    "cudaEventSynchronize",
                                                    "cudaMemcpy",
                                                    "cudaMemcpyAsync",
                                                    "Context Sync",
                                                    "Stream Sync",
                                                    "Event Sync"};
  return kNames.contains(name);
}

class Graph {
 public:
  Graph(const Reader& reader, const trace::NameNumbers& names, const HtaPathOptions& options)
      : reader_(reader), names_(names), options_(options) {}

  Result<HtaPath> run() {
    out_.rank = options_.rank;
    Result<HtaClock> clock = HtaClock::of(reader_, names_);
    if (!clock) return clock.status();
    clock_ = *clock;
    TS_TRY(findRange());
    TS_TRY(load());
    callStacks();
    device();
    longest();
    return std::move(out_);
  }

 private:
  bool mine(const EventRow& row) const { return row.dur != kNull && row.rank == out_.rank; }

  Status findRange() {
    if (out_.rank == kNull)
      for (const Block* b : reader_.blocks(tableOf<EventRow>()))
        if (int64_t low, high; b->zone(events::rank, low, high))
          out_.rank = out_.rank == kNull ? low : std::min(out_.rank, low);
    Selection selection;
    selection.types = 1ull << static_cast<int>(EventType::annotation) | 1ull << static_cast<int>(EventType::cpu_op);
    if (out_.rank != kNull) selection.ranks = {out_.rank};
    RowCursor<EventRow> rows(reader_, {events::ts, events::dur, events::name, events::rank}, std::move(selection));
    std::vector<std::pair<int64_t, int64_t>> ranges;
    std::vector<std::string> labels;
    while (rows.next()) {
      const EventRow& row = rows.row();
      const std::string_view name = rows.text(events::name);
      if (!mine(row) || row.ts == kNull) continue;
      if (options_.range.empty() ? !name.starts_with("ProfilerStep#") : name != options_.range) continue;
      ranges.emplace_back(row.ts, row.ts + row.dur);
      labels.emplace_back(name);
    }
    TS_TRY(rows.status());
    std::vector<size_t> order(ranges.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ranges[a] < ranges[b]; });
    const size_t at = options_.range.empty() ? ranges.size() / 2 : static_cast<size_t>(std::max(0, options_.instance));
    if (at >= ranges.size())
      return Status::notFound(
          ranges.empty()
              ? (options_.range.empty() ? "no ProfilerStep range on this rank: choose one with --range"
                                        : "no range '" + options_.range + "' on this rank")
              : "range '" + options_.range + "' occurs only " + std::to_string(ranges.size()) + " times on this rank");
    from_ns_ = ranges[order[at]].first;
    from_ = clock_.start(from_ns_);
    to_ = clock_.end(from_ns_, ranges[order[at]].second);
    out_.range = labels[order[at]];
    out_.instance = options_.range.empty() ? 0 : options_.instance;
    return {};
  }

  Status load() {
    // Host calls that begin in the range, then what they launched, whenever it ran.
    std::set<int64_t> launched;
    for (const bool on_device : {false, true}) {
      Selection selection;
      selection.from = from_ns_;
      if (!on_device) selection.to = (to_ + 1) * 1000;
      if (out_.rank != kNull) selection.ranks = {out_.rank};
      RowCursor<EventRow> rows(reader_,
                               {events::ts, events::dur, events::type, events::name, events::rank, events::tid,
                                events::stream, events::correlation, events::args},
                               std::move(selection), &names_);
      while (rows.next()) {
        const EventRow& row = rows.row();
        if (!mine(row) || row.ts == kNull) continue;
        const auto type = static_cast<EventType>(row.type);
        Event e{clock_.start(row.ts),
                clock_.end(row.ts, row.ts + row.dur),
                row.name == kNull ? trace::kNoName : static_cast<uint32_t>(row.name),
                type,
                row.tid,
                row.stream,
                row.correlation};
        const bool device = e.stream != kNull && type != EventType::gpu_annotation;
        if (device != on_device) continue;
        if (!device) {
          const bool call = type == EventType::cpu_op || type == EventType::runtime || type == EventType::driver ||
                            type == EventType::sync;
          if (!call || e.ts < from_ || e.ts > to_ || e.end <= e.ts || isRange(e)) continue;
          if (e.correlation != kNull) launched.insert(e.correlation);
        } else {
          if (e.correlation == kNull || !launched.contains(e.correlation)) continue;
          if (const std::string_view args = rows.text(events::args); type == EventType::sync && args.data())
            e.wait_stream = numberAfter(args, "\"wait_on_stream\"");
        }
        (device ? device_ : host_).push_back(e);
      }
      TS_TRY(rows.status());
    }
    // Hosts first, then devices: a node is 2 × index, and one more for its end.
    for (size_t i = 0; i < host_.size(); ++i)
      if (host_[i].correlation != kNull) launch_[host_[i].correlation] = i;
    times_.reserve(2 * (host_.size() + device_.size()));
    for (const std::vector<Event>* list : {&host_, &device_})
      for (const Event& e : *list) {
        times_.push_back(e.ts);
        times_.push_back(e.end);
      }
    edges_.resize(times_.size());
    return {};
  }

  /// Old profilers gave annotations the category of operators.
  bool isRange(const Event& e) const { return names_.text(e.name).starts_with("ProfilerStep#"); }

  const Event& event(size_t node) const {
    return node / 2 < host_.size() ? host_[node / 2] : device_[node / 2 - host_.size()];
  }
  size_t deviceNode(size_t i) const { return 2 * (host_.size() + i); }

  void add(size_t from, size_t to, EdgeKind kind, bool zero = false) {
    const int64_t weight = zero ? 0 : std::max<int64_t>(0, times_[to] - times_[from]);
    for (Edge& e : edges_[to])
      if (e.from == from) {
        e.weight = weight;
        e.kind = kind;
        return;
      }
    edges_[to].push_back({static_cast<uint32_t>(from), weight, kind});
    ++out_.graph_edges;
  }

  void callStacks() {
    std::map<int64_t, std::vector<size_t>> threads;
    for (size_t i = 0; i < host_.size(); ++i) threads[host_[i].tid].push_back(i);
    constexpr size_t kNone = SIZE_MAX;
    for (auto& [tid, rows] : threads) {
      std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
        return host_[a].ts != host_[b].ts ? host_[a].ts < host_[b].ts : host_[a].end > host_[b].end;
      });
      std::vector<size_t> stack;
      size_t last = kNone, last_top = kNone;
      auto close = [&](int64_t until) {
        while (!stack.empty() && host_[stack.back()].end <= until) {
          const size_t node = 2 * stack.back() + 1;
          if (last != kNone) add(last, node, EdgeKind::op, isBlocking(names_.text(host_[stack.back()].name)));
          last = node;
          stack.pop_back();
          if (stack.empty()) {
            last_top = last;
            last = kNone;
          }
        }
      };
      for (size_t i : rows) {
        close(host_[i].ts);
        if (stack.empty()) {
          if (last_top != kNone) add(last_top, 2 * i, EdgeKind::dependency, true);
        } else if (last != kNone) {
          add(last, 2 * i, EdgeKind::op);
        }
        last = 2 * i;
        stack.push_back(i);
      }
      close(INT64_MAX);
    }
  }

  void device() {
    std::vector<size_t> kernels, waits;
    for (size_t i = 0; i < device_.size(); ++i) (device_[i].type == EventType::sync ? waits : kernels).push_back(i);
    std::stable_sort(kernels.begin(), kernels.end(), [&](size_t a, size_t b) { return device_[a].ts < device_[b].ts; });
    auto launchOf = [&](size_t i) { return launch_.at(device_[i].correlation); };
    // Queue lengths at launch and at start.
    struct Point {
      int64_t ts;
      bool start;
      size_t kernel;
    };
    std::vector<Point> points;
    for (size_t i : kernels) {
      points.push_back({host_[launchOf(i)].ts, false, i});
      points.push_back({device_[i].ts, true, i});
    }
    std::stable_sort(points.begin(), points.end(),
                     [](const Point& a, const Point& b) { return a.ts != b.ts ? a.ts < b.ts : a.start < b.start; });
    std::map<int64_t, int> queue;
    std::vector<std::pair<int, int>> lengths(device_.size());
    for (const Point& p : points) {
      int& q = queue[device_[p.kernel].stream];
      q += p.start ? -1 : 1;
      (p.start ? lengths[p.kernel].second : lengths[p.kernel].first) = q;
    }
    /// The last kernel of a stream launched before a host call.
    auto lastBefore = [&](int64_t stream, size_t call) {
      size_t found = SIZE_MAX;
      for (size_t i : kernels)
        if (device_[i].stream == stream && host_[launchOf(i)].ts < host_[call].ts) found = i;
      return found;
    };
    std::unordered_map<size_t, size_t> source;  // kernel → the one its stream waited for
    for (size_t w : waits) {
      const Event& e = device_[w];
      const size_t call = launchOf(w);
      const std::string_view name = names_.text(e.name);
      if (name == "Stream Wait Event" && e.wait_stream != kNull) {
        const size_t from = lastBefore(e.wait_stream, call);
        for (size_t i : kernels)
          if (device_[i].stream == e.stream && host_[launchOf(i)].ts > host_[call].ts) {
            if (from != SIZE_MAX && device_[from].end <= device_[i].ts) {
              add(deviceNode(from) + 1, deviceNode(i), EdgeKind::sync, true);
              source[i] = from;
            }
            break;
          }
        continue;
      }
      std::set<int64_t> streams = {e.stream};
      if (name == "Context Sync")
        for (size_t i : kernels) streams.insert(device_[i].stream);
      for (int64_t stream : streams)
        if (const size_t from = lastBefore(stream, call); from != SIZE_MAX && device_[from].end <= host_[call].end)
          add(deviceNode(from) + 1, 2 * call + 1, EdgeKind::sync, true);
    }
    constexpr int64_t kFar = 1500;  // µs: a kernel so much later does not follow from the one before
    std::map<int64_t, size_t> previous;
    for (size_t i : kernels) {
      add(deviceNode(i), deviceNode(i) + 1, EdgeKind::kernel);
      const size_t call = launchOf(i);
      auto before = previous.find(device_[i].stream);
      const bool had = before != previous.end();
      auto synced = source.find(i);
      auto ended = [&](int64_t until) { return synced == source.end() || device_[synced->second].end < until; };
      if (lengths[i].first == 1 && lengths[i].second == 0 && (!had || device_[before->second].end < host_[call].ts) &&
          ended(host_[call].ts))
        add(2 * call, deviceNode(i), EdgeKind::launch);
      else if (had && device_[i].ts - device_[before->second].end < kFar && ended(device_[before->second].end))
        add(deviceNode(before->second) + 1, deviceNode(i), EdgeKind::kernel_kernel);
      previous[device_[i].stream] = i;
    }
  }

  /// As networkx does it: the first of equal predecessors counts.
  void longest() {
    const size_t n = times_.size();
    out_.graph_nodes = n;
    if (n == 0) return;
    std::vector<std::vector<uint32_t>> next(n);
    std::vector<uint32_t> open(n, 0);
    for (size_t v = 0; v < n; ++v)
      for (const Edge& e : edges_[v]) {
        next[e.from].push_back(static_cast<uint32_t>(v));
        ++open[v];
      }
    std::vector<uint32_t> order;
    for (uint32_t v = 0; v < n; ++v)
      if (open[v] == 0) order.push_back(v);
    std::vector<int64_t> distance(n, 0);
    std::vector<const Edge*> chosen(n, nullptr);
    uint32_t best = order.empty() ? 0 : order[0];
    for (size_t k = 0; k < order.size(); ++k) {
      const uint32_t v = order[k];
      for (const Edge& e : edges_[v])
        if (!chosen[v] || distance[e.from] + e.weight > distance[v]) {
          distance[v] = distance[e.from] + e.weight;
          chosen[v] = &e;
        }
      if (distance[v] > distance[best]) best = v;
      for (uint32_t w : next[v])
        if (--open[w] == 0) order.push_back(w);
    }
    std::set<size_t> seen;
    out_.weight_us = distance[best];
    for (uint32_t v = best;; v = chosen[v]->from) {
      ++out_.nodes;
      seen.insert(v / 2);
      const Edge* e = chosen[v];
      if (!e) break;
      ++out_.edges;
      if (e->weight == 0) continue;
      const Event& cause = event(e->from);
      const Event& what = e->kind == EdgeKind::op && e->from % 2 && v % 2 ? event(v) : cause;
      out_.path.push_back({std::string(names_.text(what.name)), kKinds[static_cast<int>(e->kind)], e->weight});
      out_.bound_by[boundBy(*e, what)] += e->weight;
    }
    out_.events = seen.size();
    std::reverse(out_.path.begin(), out_.path.end());
  }

  const char* boundBy(const Edge& e, const Event& what) const {
    const std::string_view name = names_.text(what.name);
    switch (e.kind) {
      case EdgeKind::kernel:
        return htaType(name) == HtaType::communication ? "gpu_communication_bound" : "gpu_compute_bound";
      case EdgeKind::launch:
        return "kernel_launch_overhead";
      case EdgeKind::kernel_kernel:
        return "kernel_kernel_overhead";
      default:
        return phaseOfName(name) == Phase::data ? "data_loading" : "cpu_bound";
    }
  }

  const Reader& reader_;
  const trace::NameNumbers& names_;
  const HtaPathOptions& options_;
  HtaClock clock_;
  int64_t from_ns_ = 0, from_ = 0, to_ = 0;
  std::vector<Event> host_, device_;
  std::unordered_map<int64_t, size_t> launch_;  // by correlation: index in host_
  std::vector<int64_t> times_;                  // by node
  std::vector<std::vector<Edge>> edges_;        // into each node
  HtaPath out_;
};

}  // namespace

Result<HtaPath> htaCriticalPath(const Reader& reader, const HtaPathOptions& options) {
  Result<trace::NameNumbers> names = trace::NameNumbers::load(reader);
  if (!names) return names.status();
  return Graph(reader, *names, options).run();
}

}  // namespace tracesmith::analysis
