#include "analysis/verdict/part_exposure.hpp"

#include <algorithm>

namespace tracesmith::analysis {

using namespace trace;

namespace {

class Exposures {
 public:
  Exposures(const RankRows& rows, std::span<Part> parts, std::vector<Part>& recognised, const WorkTimes& times)
      : rows_(rows), parts_(parts), recognised_(recognised), times_(times) {}

  /// How much of every collective ran without computation under it.
  void run() {
    const std::vector<Interval>& busy = times_.compute;
    constexpr int64_t kPause = 5000;  // kernels in a row are closer than this, ns
    size_t first = 0;
    auto settle = [&](Part& p) {
      while (first < busy.size() && busy[first].to <= p.ts) ++first;
      int64_t hidden = 0;
      bool running = false;
      int64_t stopped = first > 0 ? busy[first - 1].to : INT64_MIN;
      const bool computing = first < busy.size() && busy[first].from < p.ts;
      if (!computing && first > 0) p.slack_ns = p.ts - busy[first - 1].to;
      for (size_t i = first; i < busy.size() && busy[i].from < p.end; ++i) {
        hidden += std::min(busy[i].to, p.end) - std::max(busy[i].from, p.ts);
        running = busy[i].to >= p.end - kPause;
        stopped = busy[i].to;
      }
      p.exposed_ns = std::max<int64_t>(0, p.end - p.ts - hidden);
      p.blocks = !running;
      p.held_ns = running || stopped == INT64_MIN ? kNull : p.end - stopped;
    };
    for (Part& p : parts_) settle(p);
    slacks();
    receives();
    passed(times_.late, &Part::late_before_ns, &Part::late_ns);
    passed(times_.own, &Part::own_before_ns, &Part::own_ns);
    first = 0;
    for (Part& p : recognised_) settle(p);
  }

 private:
  /// Computation goes on after a receive with what was launched after it. If that often began before the receive had
  /// ended, receives are launched ahead here, and nobody knows what needs them.
  void receives() {
    std::vector<std::pair<Part*, int64_t>> used;
    size_t ahead = 0, next = 0;
    for (Part* p : called_) {
      if (p->op != OpKind::recv) continue;
      while (next < times_.begun.size() && (rows_.calls[next].ts < p->enqueue || times_.begun[next] == INT64_MAX))
        ++next;
      if (next == times_.begun.size()) break;
      if (times_.begun[next] < p->end)
        ++ahead;
      else if (!p->blocks)
        used.emplace_back(p, p->end - times_.begun[next]);
    }
    if (20 * ahead > used.size()) return;
    for (const auto& [part, ns] : used) part->held_ns = ns;
  }

  /// How much of `times` had passed when each part started, and when computation could go on after it.
  void passed(const std::vector<Interval>& times, int64_t Part::*at_start, int64_t Part::*at_end) {
    size_t next = 0;
    int64_t before = 0;
    auto until = [&](int64_t ts) {  // not far back from one call to the next
      for (; next > 0 && times[next - 1].to > ts; --next) before -= times[next - 1].to - times[next - 1].from;
      for (; next < times.size() && times[next].to <= ts; ++next) before += times[next].to - times[next].from;
      return before + (next < times.size() ? std::max<int64_t>(0, ts - times[next].from) : 0);
    };
    for (Part& p : parts_) {
      p.*at_end = until(p.held_ns == kNull ? p.end : std::max(p.end, p.end - p.held_ns));
      p.*at_start = until(p.ts);
    }
  }

  /// A collective waits for what was launched before it was called, and for nothing that was launched later.
  void slacks() {
    if (times_.done.empty()) return;
    for (Part& p : parts_)
      if (p.enqueue != kNull) called_.push_back(&p);
    std::sort(called_.begin(), called_.end(), [](const Part* a, const Part* b) { return a->enqueue < b->enqueue; });
    int64_t done = INT64_MIN;
    size_t next = 0;
    for (Part* p : called_) {
      for (; next < times_.done.size() && rows_.calls[next].ts < p->enqueue; ++next)
        done = std::max(done, times_.done[next]);
      if (done != INT64_MIN) p->slack_ns = std::max<int64_t>(0, p->ts - std::max(done, p->enqueue));
    }
  }

  const RankRows& rows_;
  std::span<Part> parts_;
  std::vector<Part>& recognised_;
  const WorkTimes& times_;
  std::vector<Part*> called_;  // by the time of the call
};

}  // namespace

void setExposures(const RankRows& rows, std::span<Part> parts, std::vector<Part>& recognised, const WorkTimes& times) {
  Exposures(rows, parts, recognised, times).run();
}

}  // namespace tracesmith::analysis
