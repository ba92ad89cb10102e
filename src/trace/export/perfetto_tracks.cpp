#include "trace/export/perfetto_tracks.hpp"

#include <algorithm>

namespace tracesmith::trace {
namespace {

// Places among siblings. A node has its metrics before its processes; a process its named tracks, its counters, its
// threads and its GPUs.
constexpr int32_t kMetrics = 0, kProcesses = 1000, kCounters = 100, kThreads = 1000, kGpus = 1'000'000;

/// Order of an id among its siblings; kNull first.
int32_t place(int32_t base, int64_t id) {
  return base + static_cast<int32_t>(std::clamp<int64_t>(id == kNull ? 0 : id + 1, 0, 500'000));
}

}  // namespace

uint64_t PerfettoTracks::node(std::string_view name) {
  if (name.empty()) return 0;
  auto [it, first] = nodes_.try_emplace(name, 0);
  if (first) it->second = packets_.track(name, {.order = static_cast<int32_t>(nodes_.size())});
  return it->second;
}

uint64_t PerfettoTracks::process(std::string_view node_name, int64_t rank, int64_t pid) {
  auto [it, first] = processes_.try_emplace({node_name, rank, pid}, 0);
  if (first)
    it->second = packets_.track(names_.process(node_name, rank, pid),
                                {.parent = node(node_name), .order = place(kProcesses, rank)});
  return it->second;
}

uint64_t PerfettoTracks::device(std::string_view node_name, int64_t rank, int64_t pid, int64_t index) {
  auto [it, first] = devices_.try_emplace({node_name, rank, pid, index}, 0);
  if (first)
    it->second = packets_.track(names_.device(node_name, index),
                                {.parent = process(node_name, rank, pid), .order = place(kGpus, index)});
  return it->second;
}

SliceTrack& PerfettoTracks::thread(std::string_view node_name, int64_t rank, int64_t pid, int64_t tid) {
  auto [it, first] = tracks_.try_emplace({Kind::kThread, node_name, rank, pid, tid, 0, {}});
  if (first)
    it->second = {names_.thread(node_name, rank, pid, tid), process(node_name, rank, pid), place(kThreads, tid)};
  return it->second;
}

SliceTrack& PerfettoTracks::stream(std::string_view node_name, int64_t rank, int64_t pid, int64_t index, int64_t stream,
                                   bool annotations) {
  Kind kind = annotations ? Kind::kAnnotations : Kind::kStream;
  auto [it, first] = tracks_.try_emplace({kind, node_name, rank, pid, index, stream, {}});
  if (first) {
    std::string name = names_.stream(node_name, rank, index, stream);
    int32_t order = 2 * place(0, stream);
    it->second = {annotations ? name + " ranges" : name, device(node_name, rank, pid, index),
                  annotations ? order : order + 1};
  }
  return it->second;
}

SliceTrack& PerfettoTracks::ofProcess(std::string_view node_name, int64_t rank, int64_t pid, std::string_view name,
                                      int32_t order) {
  auto [it, first] = tracks_.try_emplace({Kind::kNamed, node_name, rank, pid, 0, 0, std::string(name)});
  if (first) it->second = {std::string(name), process(node_name, rank, pid), order};
  return it->second;
}

SliceTrack& PerfettoTracks::top(const std::string& name, int32_t order) {
  auto [it, first] = tracks_.try_emplace({Kind::kNamed, {}, kNull, kNull, 0, 0, name});
  if (first) it->second = {name, 0, order};
  return it->second;
}

uint64_t PerfettoTracks::counterOfProcess(std::string_view node_name, int64_t rank, int64_t pid,
                                          const std::string& name) {
  auto [it, first] = counters_.try_emplace({Kind::kCounter, node_name, rank, pid, 0, 0, name}, 0);
  if (first)
    it->second = packets_.track(name, {.parent = process(node_name, rank, pid), .order = kCounters, .counter = true});
  return it->second;
}

uint64_t PerfettoTracks::counterOfNode(std::string_view node_name, int64_t index, const std::string& name,
                                       std::string_view unit) {
  auto [it, first] = counters_.try_emplace({Kind::kCounter, node_name, kNull, kNull, index, 1, name}, 0);
  if (first) {
    std::string label = index == kNull ? name : "GPU " + std::to_string(index) + " " + name;
    it->second = packets_.track(
        label, {.parent = node(node_name), .order = place(kMetrics, index), .counter = true, .unit = unit});
  }
  return it->second;
}

uint64_t PerfettoTracks::lane(SliceTrack& track, size_t lane) {
  while (track.ids.size() <= lane) {
    std::string name = track.name;
    if (!track.ids.empty()) name += " (" + std::to_string(track.ids.size() + 1) + ")";
    track.ids.push_back(packets_.track(name, {.parent = track.parent, .order = track.order}));
  }
  return track.ids[lane];
}

void PerfettoTracks::begin(SliceTrack& track, int64_t ts, int64_t dur) {
  int64_t end = dur > INT64_MAX - ts ? INT64_MAX : ts + dur;
  size_t l = track.lanes.place(ts, end, [&](size_t i, int64_t ended) { packets_.end(ended, track.ids[i]); });
  packets_.begin(ts, lane(track, l));
}

void PerfettoTracks::finishSlices() {
  for (auto& entry : tracks_) {
    auto& track = entry.second;
    track.lanes.finish([&](size_t i, int64_t ended) { packets_.end(ended, track.ids[i]); });
  }
  tracks_.clear();
  counters_.clear();
}

}  // namespace tracesmith::trace
