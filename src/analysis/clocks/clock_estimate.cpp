// Clocks nobody told about: all ranks leave a synchronising collective nearly together.
#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/collectives/collective_parts.hpp"
#include "base/statistics.hpp"

namespace tracesmith::analysis {
namespace {

using trace::ClockModel;

/// A pair of readings of the same instant.
struct ClockSample {
  int64_t raw, reference;
};

/// Robust line through samples: median slope, median offset; the bound holds 95 % of what is left.
ClockModel fitClock(std::vector<ClockSample> samples) {
  constexpr size_t kMost = 300;
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.raw < b.raw; });
  if (samples.size() > kMost) {
    std::vector<ClockSample> fewer;
    for (size_t i = 0; i < kMost; ++i) fewer.push_back(samples[i * samples.size() / kMost]);
    samples.swap(fewer);
  }
  ClockModel model;
  model.at_ns = samples.front().raw;
  model.method = "collectives";
  auto difference = [](const ClockSample& s) { return static_cast<double>(s.reference - s.raw); };
  const double base = difference(samples.front());
  const auto span = static_cast<double>(samples.back().raw - samples.front().raw);
  std::vector<double> slopes, rest;
  for (size_t i = 0; i < samples.size(); ++i)
    for (size_t k = i + 1; k < samples.size(); ++k)
      if (const auto dt = static_cast<double>(samples[k].raw - samples[i].raw); dt > span / 4)
        slopes.push_back((difference(samples[k]) - difference(samples[i])) / dt);
  const double slope = slopes.size() < 10 ? 0 : median(std::move(slopes));
  for (const ClockSample& s : samples)
    rest.push_back(difference(s) - base - slope * static_cast<double>(s.raw - model.at_ns));
  const double offset = median(rest);
  for (double& r : rest) r = std::abs(r - offset);
  std::sort(rest.begin(), rest.end());
  model.offset_ns = static_cast<int64_t>(std::llround(base + offset));
  model.drift_ppm = slope * 1e6;
  // Ends of one collective are a few µs apart even where the clocks agree.
  model.bound_ns = static_cast<int64_t>(rest[rest.size() * 95 / 100]) + 5000;
  return model;
}

}  // namespace

std::vector<std::string> estimateClocks(const PartTable& table, trace::Clocks& clocks) {
  std::vector<std::string> unknown;
  for (const std::string& d : table.domains)
    if (!clocks.contains(d)) unknown.push_back(d);
  if (unknown.empty() || table.domains.size() < 2) return {};
  std::set<uint32_t> known;
  for (uint32_t d = 0; d < table.domains.size(); ++d)
    if (clocks.contains(table.domains[d])) known.insert(d);
  if (known.empty()) {
    clocks[table.domains[0]].add({0, 0, 0, 0, "reference"});
    known.insert(0);
  }
  // A domain that shares a collective with a known one becomes known: until there is none left.
  for (bool progress = true; progress && known.size() < table.domains.size();) {
    progress = false;
    std::map<uint32_t, std::vector<ClockSample>> samples;
    const size_t stride = std::max<size_t>(1, table.instances.size() / 4000);
    for (size_t i = 0; i < table.instances.size(); i += stride) {
      const Instance& in = table.instances[i];
      if (!endsTogether(in.op) || !in.possible) continue;
      // One reading of the reference: the median of the ends on known clocks.
      std::vector<int64_t> ends;
      std::map<uint32_t, int64_t> raw;
      for (uint32_t k = 0; k < in.count; ++k) {
        const Part& p = table.parts[table.order[in.first + k]];
        const uint32_t d = table.domain_of.at(p.process);
        if (known.contains(d))
          ends.push_back(clockOf(clocks, table.domains[d]).toReference(p.end));
        else
          raw.try_emplace(d, p.end);
      }
      if (ends.empty() || raw.empty()) continue;
      const int64_t reference = median(std::move(ends));
      for (const auto& [d, end] : raw) samples[d].push_back({end, reference});
    }
    for (auto& [d, list] : samples) {
      clocks[table.domains[d]].add(fitClock(std::move(list)));
      known.insert(d);
      progress = true;
    }
  }
  std::vector<std::string> lost;
  for (uint32_t d = 0; d < table.domains.size(); ++d)
    if (!known.contains(d)) lost.push_back(table.domains[d]);
  return lost;
}

}  // namespace tracesmith::analysis
