#include "analysis/clock_models.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/each_row.hpp"

namespace tracesmith::analysis {

using namespace trace;

Result<ClockModels> ClockModels::load(const Reader& reader, const Names& names) {
  ClockModels models;
  const std::vector<int> columns = {clocks::node,      clocks::ts_from,  clocks::offset_ns,
                                    clocks::drift_ppm, clocks::bound_ns, clocks::method};
  TS_TRY(eachRow<ClockRow>(reader, names, columns, [&](const ClockRow& row, auto&&) {
    if (row.node == kNull || row.offset_ns == kNull) return;
    const double drift = row.drift_ppm == kNull ? 0 : std::bit_cast<double>(row.drift_ppm);
    auto text = [&](int64_t slot) {
      return slot == kNull ? std::string() : std::string(names.text(static_cast<uint32_t>(slot)));
    };
    models.segments_[text(row.node)].push_back(
        {row.ts_from == kNull ? 0 : row.ts_from, row.offset_ns, drift, row.bound_ns, text(row.method)});
  }));
  // Where collectives refined a clock, that counts.
  for (auto& [node, list] : models.segments_)
    if (std::any_of(list.begin(), list.end(), [](const ClockSegment& s) { return s.method == "collectives"; }))
      std::erase_if(list, [](const ClockSegment& s) { return s.method != "collectives"; });
  for (auto& [node, list] : models.segments_)
    std::stable_sort(list.begin(), list.end(),
                     [](const ClockSegment& a, const ClockSegment& b) { return a.from < b.from; });
  return models;
}

const std::vector<ClockSegment>* ClockModels::find(const std::string& domain) const {
  auto it = segments_.find(domain);
  return it == segments_.end() ? nullptr : &it->second;
}

int64_t ClockModels::toReference(const std::vector<ClockSegment>* segments, int64_t ts) {
  if (!segments) return ts;
  auto it = std::upper_bound(segments->begin(), segments->end(), ts,
                             [](int64_t t, const ClockSegment& s) { return t < s.from; });
  const ClockSegment& s = it == segments->begin() ? *it : *std::prev(it);
  return ts + s.offset_ns + std::llround(s.drift_ppm * 1e-6 * static_cast<double>(ts - s.from));
}

int64_t ClockModels::toRaw(const std::vector<ClockSegment>* segments, int64_t reference) {
  int64_t raw = reference;
  for (int i = 0; i < 4; ++i) raw += reference - toReference(segments, raw);  // drifts are tiny: it converges at once
  return raw;
}

int64_t ClockModels::bound() const {
  int64_t bound = 0;
  for (const auto& [domain, list] : segments_)
    for (const ClockSegment& s : list) {
      if (s.bound_ns == kNull) return kNull;
      bound = std::max(bound, s.bound_ns);
    }
  return bound;
}

ClockSegment fitClock(std::vector<ClockSample> samples) {
  constexpr size_t kMost = 300;
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.raw < b.raw; });
  if (samples.size() > kMost) {
    std::vector<ClockSample> fewer;
    for (size_t i = 0; i < kMost; ++i) fewer.push_back(samples[i * samples.size() / kMost]);
    samples.swap(fewer);
  }
  ClockSegment model{samples.front().raw, 0, 0, 0, "collectives"};
  auto median = [](std::vector<double>& v) {
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
  };
  auto difference = [](const ClockSample& s) { return static_cast<double>(s.reference - s.raw); };
  const double base = difference(samples.front());
  const auto span = static_cast<double>(samples.back().raw - samples.front().raw);
  std::vector<double> slopes, rest;
  for (size_t i = 0; i < samples.size(); ++i)
    for (size_t k = i + 1; k < samples.size(); ++k)
      if (const auto dt = static_cast<double>(samples[k].raw - samples[i].raw); dt > span / 4)
        slopes.push_back((difference(samples[k]) - difference(samples[i])) / dt);
  const double slope = slopes.size() < 10 ? 0 : median(slopes);
  for (const ClockSample& s : samples)
    rest.push_back(difference(s) - base - slope * static_cast<double>(s.raw - model.from));
  const double offset = median(rest);
  for (double& r : rest) r = std::abs(r - offset);
  std::sort(rest.begin(), rest.end());
  model.offset_ns = static_cast<int64_t>(std::llround(base + offset));
  model.drift_ppm = slope * 1e6;
  // Ends of one collective are a few µs apart even where the clocks agree.
  model.bound_ns = static_cast<int64_t>(rest[rest.size() * 95 / 100]) + 5000;
  return model;
}

}  // namespace tracesmith::analysis
