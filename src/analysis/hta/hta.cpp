#include "analysis/hta/hta.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/rows/each_row.hpp"
#include "analysis/rows/intervals.hpp"
#include "base/text.hpp"
#include "trace/category.hpp"

namespace tracesmith::analysis {

using trace::EventType;
using trace::kNull;

namespace {

bool contains(std::string_view s, std::string_view part) { return s.find(part) != s.npos; }

bool startsWithAny(std::string_view s, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view p) { return s.starts_with(p); });
}

bool isOneOf(std::string_view s, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), s) != names.end();
}

}  // namespace

const char* htaTypeName(HtaType type) {
  static constexpr const char* kNames[] = {"COMPUTATION", "COMMUNICATION", "MEMORY", "OTHER"};
  return kNames[static_cast<int>(type)];
}

HtaType htaType(std::string_view name) {
  if (startsWithAny(name, {"nccl", "hip", "hccl"}) || contains(name, "ncclKernel")) return HtaType::communication;
  if (startsWithAny(name, {"Memcpy", "Memset", "dma"})) return HtaType::memory;
  const bool other = contains(name, "Memcpy") || contains(name, "Memset") || contains(name, "dma") ||
                     contains(name, "Sync") || (name.starts_with("cuda") && contains(name, "LaunchKernel")) ||
                     startsWithAny(name, {"Stream Wait Event", "runFunction", "job_exe", "packet", "pe_exe",
                                          "cpum_exe_subgraph", "collective_subgraph_execution"});
  return other ? HtaType::other : HtaType::computation;
}

Result<HtaClock> HtaClock::of(const trace::Reader& reader, const trace::NameNumbers& names) {
  int64_t base_ns = 0;
  using namespace trace::metadata;
  TS_TRY(eachRow<trace::MetadataRow>(reader, names, {key, value}, [&](const trace::MetadataRow& row, auto&& text) {
    if (base_ns == 0 && row.key != trace::kNull && names.text(static_cast<uint32_t>(row.key)) == trace::kChromeBaseKey)
      if (int64_t ns; parseInt(text(value), ns) && ns > 0 && ns < INT64_MAX / 2) base_ns = ns;
  }));
  return HtaClock(base_ns);
}

double HtaClock::sinceBase(int64_t ts_ns) const {
  return static_cast<double>(static_cast<long double>(ts_ns - base_us_ * 1000) / 1000);
}
int64_t HtaClock::start(int64_t ts_ns) const { return base_us_ + static_cast<int64_t>(std::ceil(sinceBase(ts_ns))); }
int64_t HtaClock::end(int64_t ts_ns, int64_t end_ns) const {
  return base_us_ + static_cast<int64_t>(std::floor(sinceBase(ts_ns) + static_cast<double>(end_ns - ts_ns) / 1000));
}

HtaAnalysis::HtaAnalysis(const trace::NameNumbers& names, const TraceSteps& steps, HtaClock clock,
                         const Coverage* coverage)
    : names_(names), steps_(steps), clock_(clock), coverage_(coverage) {
  for (uint32_t n = 0; n < names.size(); ++n) {
    const std::string_view text = names.text(n);
    types_.push_back(htaType(text));
    const bool kernel =
        isOneOf(text, {"cudaLaunchKernel", "cudaLaunchKernelExC", "runFunction - job_prep_and_submit_for_execution"});
    const bool copy = isOneOf(text, {"cudaMemcpyAsync", "cudaMemsetAsync"});
    const bool more =
        isOneOf(text, {"cuLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel", "hipExtModuleLaunchKernel",
                       "hipMemcpyAsync", "hipMemsetAsync", "hipMemcpyWithStream"});
    launchers_.push_back(static_cast<uint8_t>((kernel || copy || more ? 1 : 0) | (kernel || copy ? 2 : 0)));
  }
}

int64_t HtaAnalysis::missing(int64_t process, int64_t from_us, int64_t to_us) const {
  return coverage_ && to_us > from_us ? coverage_->missing(process, from_us * 1000, to_us * 1000) / 1000 : 0;
}

std::vector<HtaRow> HtaAnalysis::rowsOf(const RankRows& rows, const Launches& launches) const {
  // With several profiler steps only what was launched before the last one counts.
  const bool cut = steps_.profiler_names > 1;
  auto last = steps_.last_profiler_step.find(rows.process);
  const int64_t limit =
      cut && last != steps_.last_profiler_step.end() ? clock_.start(last->second) : std::numeric_limits<int64_t>::max();
  std::vector<HtaRow> kept;
  kept.reserve(rows.device.size());
  for (const DeviceEvent& e : rows.device) {
    const HostCall* launch = e.correlation == kNull ? nullptr : launches.find(e.correlation);
    if (cut && (!launch || clock_.start(launch->ts) >= limit)) continue;
    kept.push_back({clock_.start(e.ts), clock_.end(e.ts, e.end), launch, e.name, e.stream,
                    e.name == trace::kNoName ? HtaType::other : types_[e.name], e.type});
  }
  return kept;
}

void HtaAnalysis::add(const RankRows& rows, const Launches& index) {
  Part part;
  const std::vector<HtaRow> kept = rowsOf(rows, index);
  if (!kept.empty()) {
    temporal(rows, kept, part.hta);
    kernels(rows.rank(), kept, part.hta);
    streams(rows, kept, part.hta);
    launches(rows.rank(), kept, part.hta);
    communication(rows, kept, part);
  }
  std::lock_guard lock(mutex_);
  parts_[rows.process] = std::move(part);
}

void HtaAnalysis::temporal(const RankRows& rows, const std::vector<HtaRow>& kept, Hta& out) const {
  Union all, types[3];
  for (const HtaRow& r : kept) {
    all.add(r.ts, r.end);
    if (r.type != HtaType::other) types[static_cast<int>(r.type)].add(r.ts, r.end);
  }
  int64_t span = all.parts().back().to - all.parts().front().from;
  if (coverage_)
    for (size_t i = 1; i < all.parts().size(); ++i)
      span -= missing(rows.process, all.parts()[i - 1].to, all.parts()[i].from);
  const int64_t idle = span - all.length(), compute = types[0].length();
  out.temporal.push_back({rows.rank(), idle, compute, span - compute - idle, span});
  HtaOverlap overlap{rows.rank(), commonLength(types[1].parts(), types[0].parts()), types[1].length()};
  if (overlap.comm_us > 0)
    overlap.pct =
        std::round(100 * static_cast<double>(overlap.overlap_us) / static_cast<double>(overlap.comm_us) * 100) / 100;
  out.overlap.push_back(overlap);
  int64_t by_mask[8] = {};
  sweep({&types[0].parts(), &types[1].parts(), &types[2].parts()},
        [&](unsigned mask, int64_t from, int64_t to) { by_mask[mask] += to - from; });
  for (unsigned mask = 1; mask < 8; ++mask) {
    if (by_mask[mask] == 0) continue;
    std::string label;
    for (int t = 0; t < 3; ++t)
      if (mask >> t & 1) label += (label.empty() ? "" : " overlapping ") + std::string(htaTypeName(HtaType(t)));
    out.kernel_types[label] += by_mask[mask];
  }
}

void HtaAnalysis::streams(const RankRows& rows, const std::vector<HtaRow>& kept, Hta& out) const {
  struct Stream {
    HtaIdle idle{};
    const HtaRow* previous = nullptr;
    std::vector<int64_t> launched, started;
  };
  std::vector<Stream> streams(rows.streams.size());
  for (const HtaRow& r : kept) {
    Stream& s = streams[static_cast<size_t>(r.stream)];
    if (r.launch && r.launch->name != trace::kNoName && launchers_[r.launch->name] & 1) {
      s.launched.push_back(clock_.start(r.launch->ts));
      s.started.push_back(r.ts);
    }
    if (r.event != EventType::kernel && r.event != EventType::memcpy && r.event != EventType::memset) continue;
    if (s.previous) {
      constexpr int64_t kConsecutive = 30;  // µs, as HTA compares it
      const int64_t gap = r.ts - s.previous->end - missing(rows.process, s.previous->end, r.ts);
      if (r.launch && clock_.start(r.launch->ts) > s.previous->end)
        s.idle.host_wait_us += gap;
      else
        (gap < kConsecutive ? s.idle.kernel_wait_us : s.idle.other_us) += gap;
    }
    s.previous = &r;
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    Stream& s = streams[i];
    if (s.previous) {
      s.idle.rank = rows.rank();
      s.idle.stream = rows.streams[i];
      out.idle.push_back(s.idle);
    }
    if (s.launched.empty()) continue;
    std::sort(s.launched.begin(), s.launched.end());
    std::sort(s.started.begin(), s.started.end());
    int64_t length = 0, max = INT64_MIN;
    double sum = 0, squares = 0;
    const size_t n = s.launched.size();
    for (size_t a = 0, b = 0; a < n || b < n;) {
      if (a < n && (b == n || s.launched[a] <= s.started[b])) {
        ++length;
        ++a;
      } else {
        --length;
        ++b;
      }
      max = std::max(max, length);
      sum += static_cast<double>(length);
      squares += static_cast<double>(length) * static_cast<double>(length);
    }
    const double count = 2.0 * static_cast<double>(n), mean = sum / count;
    out.queue.push_back({rows.rank(), rows.streams[i], 2 * n, mean,
                         std::sqrt(std::max(0.0, (squares - count * mean * mean) / (count - 1))), max});
  }
}

void HtaAnalysis::launches(int64_t rank, const std::vector<HtaRow>& kept, Hta& out) const {
  HtaLaunch l{};
  l.rank = rank;
  double cpu = 0, gpu = 0, delays = 0;
  for (const HtaRow& r : kept) {
    if (!r.launch || r.launch->name == trace::kNoName || !(launchers_[r.launch->name] & 2)) continue;
    const int64_t start = clock_.start(r.launch->ts), end = clock_.end(r.launch->ts, r.launch->end);
    const int64_t cpu_us = end - start, gpu_us = r.end - r.ts, delay = std::max<int64_t>(0, r.ts - end);
    ++l.count;
    cpu += static_cast<double>(cpu_us);
    gpu += static_cast<double>(gpu_us);
    delays += static_cast<double>(delay);
    l.delay_us_max = std::max(l.delay_us_max, delay);
    l.short_kernels += gpu_us < cpu_us;
    l.runtime_outliers += cpu_us > 50;
    l.delay_outliers += delay > 100;
  }
  if (l.count == 0) return;
  const auto n = static_cast<double>(l.count);
  l.cpu_us_mean = cpu / n;
  l.gpu_us_mean = gpu / n;
  l.delay_us_mean = delays / n;
  out.launch.push_back(l);
}

Hta HtaAnalysis::finish() {
  Hta all;
  auto append = [](auto& to, auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (auto& [process, part] : parts_) {
    append(all.temporal, part.hta.temporal);
    append(all.overlap, part.hta.overlap);
    append(all.kernels, part.hta.kernels);
    append(all.idle, part.hta.idle);
    append(all.queue, part.hta.queue);
    append(all.launch, part.hta.launch);
    for (const auto& [label, us] : part.hta.kernel_types) all.kernel_types[label] += us;
  }
  all.stragglers = stragglers();
  return all;
}

}  // namespace tracesmith::analysis
