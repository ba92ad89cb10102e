// Links between two ranks: by the sends and receives of a pipeline, and by what NCCL's proxy sent over them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "analysis/rows/each_row.hpp"
#include "analysis/verdict/job_data.hpp"
#include "base/statistics.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr double kLeastSlow = 0.04;  // of the time a byte takes
constexpr double kSure = 4.5;        // standard errors
constexpr double kLeastLeft = 0.02;  // of a transfer: no link is free

constexpr double kLeastPair = 2;    // × the slowest of the other pairs
constexpr size_t kLeastSends = 12;  // of a pair
constexpr size_t kLeastOthers = 2;  // pairs to compare with

/// What one rank sent to another.
struct Pair {
  std::vector<double> ns_per_byte;
  double bytes = 0, ns = 0;
  struct Channel {
    double bytes = 0, ns = 0;
  };
  std::map<std::pair<int64_t, int64_t>, Channel> channels;  // by communicator (a name) and channel
};

constexpr const char* kOtherPairs = "other pairs of ranks";
std::string evidenceOf(const LinkResult& link) {
  char text[160];
  std::snprintf(text, sizeof text, "sends take %.2f × as long per byte as those of other pairs", link.slowdown);
  return text;
}

/// Time in which something was on the network; where that is not known, all that was not waiting for the sender's GPU
/// and the receiver's credit.
int64_t networkNs(const ProxyOpRow& row) {
  if (row.net_wait != kNull) return row.net_wait;
  return row.dur - (row.gpu_wait == kNull ? 0 : row.gpu_wait) - (row.peer_wait == kNull ? 0 : row.peer_wait);
}

/// The communicator that the link holds up most, and what part of its transfers would be left with a link as usual.
/// Channels work side by side: the one that is held up longest counts.
void putCost(const JobData& job, const NameNumbers& names, const Pair& pair, double usual, LinkEvidence& link) {
  std::map<int64_t, double> extra_ns;
  for (const auto& [key, channel] : pair.channels)
    extra_ns[key.first] = std::max(extra_ns[key.first], channel.ns - usual * channel.bytes);
  auto most = std::max_element(extra_ns.begin(), extra_ns.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == extra_ns.end() || most->first == kNull || most->second <= 0) return;
  const std::string_view name = names.text(static_cast<uint32_t>(most->first));
  double transfers_ns = 0;
  for (const Instance& in : job.table.instances) {
    if (job.table.comms[in.comm].name != name || in.last_part < 0) continue;
    transfers_ns += static_cast<double>(std::max<int64_t>(0, in.transferNs()));
    link.comm = in.comm;
  }
  if (transfers_ns > 0) link.left = std::max(kLeastLeft, 1 - most->second / transfers_ns);
}

}  // namespace

/// How long one send takes depends on who came first and on what both compute meanwhile, by the schedule: some pairs
/// take twice as long as others where nothing is wrong. So a pair is slow only if a byte takes twice as long as on each
/// of the others, all sends together.
void addPairs(const JobData& job, std::vector<LinkEvidence>& links) {
  const PartTable& t = job.table;
  struct Sends {
    double ns = 0, bytes = 0;
    size_t count = 0;
  };
  std::map<uint32_t, Sends> all;  // by communicator: a pair and a direction each
  for (const Instance& in : t.instances) {
    if (!isPair(in.op) || !in.complete || in.last_part < 0 || in.bytes == kNull || in.transferNs() <= 0) continue;
    Sends& s = all[in.comm];
    s.ns += static_cast<double>(in.transferNs());
    s.bytes += static_cast<double>(in.bytes);
    ++s.count;
  }
  using Shape = std::pair<size_t, std::set<uint32_t>>;  // nodes, models of GPUs
  std::map<Shape, std::vector<std::pair<double, uint32_t>>> shapes;
  for (const auto& [comm, s] : all) {
    if (s.count < kLeastSends || t.comms[comm].members.size() != 2) continue;
    std::set<uint32_t> domains, models;
    for (int32_t process : t.comms[comm].members) {
      domains.insert(t.domain_of.at(process));
      models.insert(job.models.of(process));
    }
    shapes[{domains.size(), models}].emplace_back(s.ns / s.bytes, comm);
  }
  for (auto& [shape, pairs] : shapes) {
    std::sort(pairs.begin(), pairs.end());
    if (pairs.size() <= kLeastOthers) continue;
    const auto [own, comm] = pairs.back();
    pairs.pop_back();
    std::vector<double> others;
    for (const auto& pair : pairs) others.push_back(pair.first);
    if (own < kLeastPair * others.back()) continue;
    LinkEvidence link{{}, comm};
    LinkResult& r = link.result;
    r.group = t.comms[comm].name;
    std::set<std::string> nodes;
    for (int32_t process : t.comms[comm].members) {
      r.ranks.push_back(job.rankOf(process));
      nodes.insert(job.nodeOf(process));
    }
    r.nodes.assign(nodes.begin(), nodes.end());
    r.collectives = all[comm].count;
    r.slowdown = own / median(others);
    r.busbw_gbps = 1 / own;
    r.compared_with = kOtherPairs;
    r.significant = true;
    r.confidence = job.clocks_known ? 0.9 : 0.5;
    r.cost_us = (all[comm].ns - median(others) * all[comm].bytes) / 1000;
    r.evidence = evidenceOf(r);
    links.push_back(std::move(link));
  }
}

Status addProxyLinks(const Reader& reader, const trace::NameNumbers& names, const JobData& job,
                     std::vector<LinkEvidence>& links) {
  std::map<std::pair<int64_t, int64_t>, Pair> pairs;
  namespace p = proxy_ops;
  const std::vector<int> columns = {p::dur,      p::rank,      p::pid,      p::peer, p::direction, p::bytes,
                                    p::gpu_wait, p::peer_wait, p::net_wait, p::comm, p::channel};
  TS_TRY(eachRow<ProxyOpRow>(reader, names, columns, [&](const ProxyOpRow& row, auto&&) {
    if (row.dur == kNull || row.peer == kNull || row.bytes == kNull || row.bytes <= 0 || row.direction == kNull) return;
    if (names.text(static_cast<uint32_t>(row.direction)) != "send") return;
    const int64_t ns = networkNs(row);
    if (ns <= 0) return;
    Pair& pair = pairs[{processOf(row.rank, row.pid), row.peer}];
    pair.ns_per_byte.push_back(static_cast<double>(ns) / static_cast<double>(row.bytes));
    pair.bytes += static_cast<double>(row.bytes);
    pair.ns += static_cast<double>(ns);
    Pair::Channel& channel = pair.channels[{row.comm, row.channel}];
    channel.bytes += static_cast<double>(row.bytes);
    channel.ns += static_cast<double>(ns);
  }));
  std::vector<double> medians;
  for (const auto& [key, pair] : pairs) medians.push_back(median(pair.ns_per_byte));
  const double usual = median(medians);
  for (const auto& [key, pair] : pairs) {
    if (pair.ns_per_byte.size() < 8 || medians.size() < 4) continue;
    const double own = median(pair.ns_per_byte), excess = own / usual - 1;
    std::vector<double> deviations;
    for (double v : pair.ns_per_byte) deviations.push_back(std::abs(v - own));
    const double error = 1.25 * std::max(0.01 * own, 1.4826 * median(deviations)) /
                         std::sqrt(static_cast<double>(pair.ns_per_byte.size()));
    LinkResult link;
    link.group = std::to_string(key.first) + "→" + std::to_string(key.second);
    link.ranks = {job.rankOf(key.first), key.second};
    link.nodes = {job.nodeOf(key.first)};
    if (const std::string to = job.nodeOf(key.second); to != link.nodes[0]) link.nodes.push_back(to);
    link.collectives = pair.ns_per_byte.size();
    link.slowdown = own / usual;
    link.busbw_gbps = pair.bytes / pair.ns;
    link.compared_with = kOtherPairs;
    const double sure = excess * usual / error;
    link.significant = excess >= kLeastSlow && sure >= kSure;
    if (link.significant) {
      link.confidence = std::min(0.99, 1 - std::exp(-sure / 6));
      link.cost_us = (pair.ns - usual * pair.bytes) / 1000;
      link.evidence = evidenceOf(link);
    }
    LinkEvidence evidence{std::move(link), UINT32_MAX};
    if (evidence.result.significant) putCost(job, names, pair, usual, evidence);
    links.push_back(std::move(evidence));
  }
  std::stable_sort(links.begin(), links.end(),
                   [](const LinkEvidence& a, const LinkEvidence& b) { return a.result.slowdown > b.result.slowdown; });
  return {};
}

}  // namespace tracesmith::analysis
