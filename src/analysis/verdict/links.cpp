// Communicators and links whose transfers are long against those of their peers, or against their own past.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <tuple>

#include "analysis/rows/trends.hpp"
#include "analysis/verdict/job_data.hpp"
#include "base/statistics.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr double kLeastSlow = 0.015;       // of a transfer
constexpr double kLeastBandwidth = 0.025;  // of its part that grows with the bytes
constexpr double kLeastOwnPast = 0.2;      // of a transfer, where no peers say that it was not the whole network
constexpr double kSure = 4.5;              // standard errors
constexpr double kMostAlone = 0.6;         // confidence, without at least two others to compare with
constexpr size_t kLeastSteps = 12;         // to know how much a single communicator varies

struct Class {
  OpKind op;
  int64_t bytes;
  int32_t size;
  size_t domains;
  size_t models;  // which of GPUs take part, as a number
  auto operator<=>(const Class&) const = default;
};

/// Mean without the tenth at either end.
double trimmedMean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t cut = values.size() / 10;
  double sum = 0;
  for (size_t i = cut; i < values.size() - cut; ++i) sum += values[i];
  return sum / static_cast<double>(values.size() - 2 * cut);
}

/// What a transfer takes with no bytes at all: the intercept of a line through what is usual for each size.
double latencyOf(const std::vector<std::pair<double, double>>& points) {
  const auto n = static_cast<double>(points.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [bytes, ns] : points) {
    x += bytes;
    y += ns;
    xx += bytes * bytes;
    xy += bytes * ns;
  }
  const double spread = n * xx - x * x;
  return points.size() < 3 || spread <= 0 ? 0 : std::max(0.0, (y - (n * xy - x * y) / spread * x) / n);
}

struct CommStats {
  std::map<Class, std::vector<double>> transfers;
  std::set<uint32_t> domains;
  size_t models = 0;
};

}  // namespace

std::vector<LinkEvidence> findLinks(const JobData& job) {
  const PartTable& t = job.table;
  std::vector<CommStats> stats(t.comms.size());
  std::map<std::set<uint32_t>, size_t> mixtures;
  for (size_t c = 0; c < t.comms.size(); ++c) {
    std::set<uint32_t> models;
    for (int32_t process : t.comms[c].members) {
      stats[c].domains.insert(t.domain_of.at(process));
      models.insert(job.models.of(process));
    }
    stats[c].models = mixtures.try_emplace(std::move(models), mixtures.size()).first->second;
  }
  auto classOf = [&](const Instance& in) {
    return Class{in.op, in.bytes, in.group_size, stats[in.comm].domains.size(), stats[in.comm].models};
  };
  // A transfer can be told where the last arrival is seen and the clocks allow it.
  auto usable = [&](const Instance& in) {
    return in.last_part >= 0 && in.complete && endsTogether(in.op) && in.bytes != kNull && in.transferNs() > 0;
  };
  for (const Instance& in : t.instances)
    if (usable(in)) stats[in.comm].transfers[classOf(in)].push_back(static_cast<double>(in.transferNs()));
  std::map<Class, std::vector<double>> medians;
  for (const CommStats& s : stats)
    for (const auto& [key, values] : s.transfers) medians[key].push_back(median(values));
  std::map<Class, std::pair<double, bool>> expected;  // and whether there were peers
  // Of two the faster one is what is normal.
  for (const auto& [key, values] : medians)
    expected[key] = {values.size() == 2 ? std::min(values[0], values[1]) : median(values), values.size() >= 2};

  using Shape = std::tuple<OpKind, int32_t, size_t>;
  std::map<Shape, std::vector<std::pair<double, double>>> sizes;
  for (const auto& [key, value] : expected)
    sizes[{key.op, key.size, key.domains}].emplace_back(static_cast<double>(key.bytes), value.first);
  std::map<Shape, double> latency;
  for (const auto& [shape, points] : sizes) latency[shape] = latencyOf(points);

  // Per communicator and step: how long transfers were against what is expected.
  struct Row {
    std::vector<double> all;
    std::vector<std::vector<double>> by_step;
    double excess_ns = 0, traffic = 0, time = 0;
    double over_ns = 0, by_bytes_ns = 0;  // more than usual; what usually grows with the bytes
    bool peers = false;
    size_t compared = 0;  // communicators of the same shape, with itself
  };
  std::vector<Row> rows(t.comms.size());
  for (const Instance& in : t.instances) {
    if (!usable(in)) continue;
    Row& row = rows[in.comm];
    const auto& [usual, peers] = expected[classOf(in)];
    const double ratio = static_cast<double>(in.transferNs()) / usual - 1;
    row.peers = row.peers || peers;
    row.compared = std::max(row.compared, medians[classOf(in)].size());
    row.all.push_back(ratio);
    row.by_step.resize(job.steps.size());
    auto column = std::lower_bound(job.steps.begin(), job.steps.end(), in.step);
    if (column != job.steps.end() && *column == in.step)
      row.by_step[static_cast<size_t>(column - job.steps.begin())].push_back(ratio);
    row.over_ns += static_cast<double>(in.transferNs()) - usual;
    row.by_bytes_ns += usual - std::min(0.9 * usual, latency[{in.op, in.group_size, stats[in.comm].domains.size()}]);
    row.excess_ns += std::max(0.0, static_cast<double>(in.transferNs()) - usual) * in.count;
    if (const auto traffic = model::trafficOf(in.op, in.bytes, in.group_size)) {
      row.traffic += traffic->bus;
      row.time += static_cast<double>(in.transferNs());
    }
  }
  std::vector<std::vector<double>> series(rows.size()), with_peers;
  for (size_t c = 0; c < rows.size(); ++c) {
    for (const auto& values : rows[c].by_step) series[c].push_back(median(values));
    if (rows[c].peers) with_peers.push_back(series[c]);
  }
  const double common_noise = noiseOf(with_peers);
  std::vector<LinkEvidence> out;
  for (uint32_t c = 0; c < rows.size(); ++c) {
    const Row& row = rows[c];
    if (row.all.size() < 4) continue;
    const std::vector<double>& steps = series[c];
    LinkResult link;
    link.group = t.comms[c].name;
    for (int32_t process : t.comms[c].members) link.ranks.push_back(job.rankOf(process));
    for (uint32_t d : stats[c].domains) link.nodes.push_back(t.domains[d]);
    link.collectives = row.all.size();
    if (row.time > 0) link.busbw_gbps = row.traffic / row.time;
    const double middle = trimmedMean(row.all);
    std::vector<double> deviations;
    for (double v : row.all) deviations.push_back(std::abs(v - middle));
    const double noise = std::max(1e-3, 1.4826 * median(deviations));
    const double error = 1.05 * noise / std::sqrt(static_cast<double>(row.all.size()));
    double excess = row.peers ? middle : 0, sure = row.peers ? middle / error : 0;
    link.compared_with = row.peers ? "communicators of the same shape" : "its own past";
    const Trend trend = trendOfOne(steps, row.peers ? common_noise : noiseOf({steps}));
    // The end of a recording is not the usual state of a job: a change has to last.
    const bool lasts = steps.size() - trend.since >= std::max<size_t>(kLeastSteps, steps.size() / 10);
    if (trend.changed && lasts && (row.peers || trend.points >= kLeastSteps)) {
      double before = 0, count = 0;
      for (size_t i = 0; i < trend.since; ++i)
        if (!std::isnan(steps[i])) {
          before += steps[i];
          ++count;
        }
      const double now = row.peers ? trend.excess : trend.excess - (count > 0 ? before / count : 0);
      if (now >= (row.peers ? kLeastSlow : kLeastOwnPast)) {
        excess = now;
        sure = std::max(sure, trend.sureness);
        link.since_step = job.steps[trend.since];
      }
    }
    link.slowdown = 1 + excess;
    // Of small messages latency is most: a slow link shows in what the bytes take.
    const bool narrow = row.peers && row.over_ns >= kLeastBandwidth * row.by_bytes_ns;
    link.significant = (excess >= kLeastSlow || narrow) && sure >= kSure;
    link.cost_us = link.significant ? row.excess_ns / 1000 : 0;
    link.confidence = link.significant ? std::min(0.99, 1 - std::exp(-sure / 6)) : 0;
    if (!job.clocks_known) link.confidence *= 0.5;
    // Its own past cannot tell a slow link from a network that others use too, nor can one other communicator.
    if (row.compared < 3) link.confidence = std::min(link.confidence, kMostAlone);
    if (link.significant) {
      char text[160];
      std::snprintf(text, sizeof text, "its transfers take %.2f × as long as those of %s", link.slowdown,
                    link.compared_with.c_str());
      link.evidence = text;
      if (link.since_step != kNull) link.evidence += " since step " + std::to_string(link.since_step);
    }
    out.push_back({std::move(link), c});
  }
  addPairs(job, out);
  std::stable_sort(out.begin(), out.end(),
                   [](const LinkEvidence& a, const LinkEvidence& b) { return a.result.slowdown > b.result.slowdown; });
  return out;
}

}  // namespace tracesmith::analysis
