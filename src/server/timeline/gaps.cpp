// When the GPUs of a process were not recorded: between the windows of watch mode, and all of a summary.
#include <algorithm>

#include "analysis/rows/coverage.hpp"
#include "analysis/rows/rank_rows.hpp"
#include "server/timeline/timeline.hpp"

namespace tracesmith::server {
namespace {

constexpr size_t kMost = 16384;  // in one answer; the longest are told

bool ofGpu(TrackKind kind) { return kind == TrackKind::stream || kind == TrackKind::gpu_ranges; }

}  // namespace

const std::map<int64_t, std::vector<analysis::Interval>>& Timeline::gaps() const {
  std::call_once(gaps_made_, [this] {
    std::map<int64_t, uint32_t> node_of;  // of a process
    for (const TrackIndex& t : index_->tracks)
      if (t.key.process != -1) node_of.try_emplace(t.key.process, t.key.node);
    if (analysis::isSummary(*reader_)) {
      for (const auto& [process, node] : node_of) gaps_[process].push_back({0, index_->duration});
      return;
    }
    Result<analysis::Coverage> coverage = analysis::Coverage::load(*reader_, names_);
    if (!coverage) return;  // a damaged block: what is drawn says so
    for (const auto& [process, list] : coverage->gaps()) {
      const auto node = node_of.find(process);
      if (node == node_of.end()) continue;
      const trace::ClockTable& clock = trace::clockOf(clocks_, std::string(names_.text(node->second)));
      auto at = [&](int64_t raw, int64_t open) {
        if (raw == INT64_MIN || raw == INT64_MAX) return open;
        return std::clamp<int64_t>(clock.toReference(raw) - index_->origin, 0, index_->duration);
      };
      for (const analysis::Interval& gap : list)
        if (const analysis::Interval i{at(gap.from, 0), at(gap.to, index_->duration)}; i.from < i.to)
          gaps_[process].push_back(i);
    }
  });
  return gaps_;
}

std::vector<model::TimelineGap> Timeline::gapsOf(const std::vector<model::Track>& tracks) const {
  std::map<int64_t, std::string> group_of;  // of processes with GPUs
  for (size_t i = 0; i < tracks.size(); ++i)
    if (ofGpu(index_->tracks[i].key.kind)) group_of.try_emplace(index_->tracks[i].key.process, tracks[i].group);
  std::vector<model::TimelineGap> out;
  for (const auto& [process, list] : gaps())
    if (const auto group = group_of.find(process); group != group_of.end())
      for (const analysis::Interval& gap : list) out.push_back({group->second, gap.from, gap.to});
  if (out.size() <= kMost) return out;
  std::vector<int64_t> lengths;
  for (const model::TimelineGap& gap : out) lengths.push_back(gap.to - gap.from);
  std::nth_element(lengths.begin(), lengths.begin() + kMost, lengths.end(), std::greater<>());
  std::erase_if(out, [least = lengths[kMost]](const model::TimelineGap& gap) { return gap.to - gap.from <= least; });
  return out;
}

int64_t Timeline::recorded(const TrackIndex& track, int64_t from, int64_t to) const {
  int64_t sum = to - from;
  if (const auto found = gaps().find(track.key.process); found != gaps().end())
    for (const analysis::Interval& gap : found->second)
      sum -= std::max<int64_t>(0, std::min(to, gap.to) - std::max(from, gap.from));
  return sum;
}

}  // namespace tracesmith::server
