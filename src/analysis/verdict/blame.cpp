#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "analysis/rows/trends.hpp"
#include "analysis/verdict/job_data.hpp"
#include "base/statistics.hpp"

namespace tracesmith::analysis {

using trace::kNull;

namespace {

constexpr size_t kLookBack = 64;       // parts of the culprit before the late one
constexpr int64_t kQueuedNs = 10'000;  // starts this soon after another: it had queued behind it

}  // namespace

std::vector<int32_t> rootsOf(const JobData& job) {
  const PartTable& t = job.table;
  std::vector<int32_t> roots(t.instances.size(), kNobody);
  for (size_t i = 0; i < t.instances.size(); ++i) {
    const Instance& in = t.instances[i];
    if (in.last_part < 0 || in.count < 2) continue;
    // With half of the ranks missing the last of the others says nothing.
    if (2 * static_cast<int32_t>(in.count) < in.group_size) continue;
    const auto at = static_cast<size_t>(in.last_part);
    const Part& late = t.parts[at];
    roots[i] = late.process;
    const double lateness = static_cast<double>(in.wait_ns) / (in.count - 1);
    const size_t begin = t.of_process.at(late.process).first;
    double inherited = 0, most = 0;
    int32_t source = kNobody;
    for (size_t k = at; k-- > begin && at - k <= kLookBack;) {
      const Part& q = t.parts[k];
      if (q.instance == UINT32_MAX) continue;
      const Instance& other = t.instances[q.instance];
      if (other.comm == in.comm) break;  // met the group here: what was before is evened out
      if (q.end > late.ts || roots[q.instance] == kNobody || roots[q.instance] == late.process) continue;
      const auto wait = static_cast<double>(std::min(q.end, other.last_start) - q.ts);
      const bool queued = k + 1 == at && late.ts - q.end < kQueuedNs;
      if (wait <= 0 || (!q.blocks && !queued)) continue;
      const double held =
          queued ? wait
                 : wait * static_cast<double>(q.exposed_ns) / static_cast<double>(std::max<int64_t>(1, q.end - q.ts));
      inherited += held;
      if (held > most) {
        most = held;
        source = roots[q.instance];
      }
    }
    if (inherited >= lateness / 2 && source != kNobody) roots[i] = source;
  }
  return roots;
}

namespace {

/// By instance: the wait that is usual for it. A stage of a pipeline waits for the one before by design, so of sends
/// and receives only what is more than that counts: more than between the same stages, at the same place in a step,
/// of the pipelines beside it and in other steps; or what a stage that always takes longer than the others adds.
std::vector<double> usualWaits(const JobData& job) {
  const PartTable& t = job.table;
  using Key = std::tuple<uint32_t, int32_t, int32_t, uint32_t>;  // pair (places unknown), places, number in its step
  std::map<std::pair<uint32_t, int32_t>, uint32_t> next;         // by pair and step
  std::map<Key, std::vector<double>> waits;
  std::vector<Key> keys(t.instances.size());
  auto pair = [](const Instance& in) { return in.op == OpKind::send || in.op == OpKind::recv; };
  for (size_t i = 0; i < t.instances.size(); ++i) {
    const Instance& in = t.instances[i];
    if (!pair(in) || in.count < 2) continue;
    const Part &a = t.parts[t.order[in.first]], &b = t.parts[t.order[in.first + 1]];
    const Part &from = a.op == OpKind::send ? a : b, &to = a.op == OpKind::send ? b : a;
    const bool placed = from.place >= 0 && to.place >= 0;
    keys[i] = {placed ? UINT32_MAX : in.comm, from.place, to.place, next[{in.comm, in.step}]++};
    waits[keys[i]].push_back(static_cast<double>(in.wait_ns));
  }
  std::map<Key, double> usual;
  for (auto& [key, values] : waits) usual[key] = median(std::move(values));
  std::vector<double> out(t.instances.size(), 0);
  for (size_t i = 0; i < out.size(); ++i)
    if (pair(t.instances[i]) && t.instances[i].count >= 2) out[i] = usual[keys[i]];
  return out;
}

}  // namespace

std::vector<Blame> blameRanks(const JobData& job, const std::vector<RankEvidence>& evidence,
                              const std::vector<int32_t>& roots) {
  struct Sum {
    double cost = 0, lost = 0, present = 0, size = 0;
    uint64_t count = 0;
  };
  std::unordered_map<int32_t, Sum> sums;
  const std::vector<double> usual = usualWaits(job);
  std::map<int64_t, double> longer;  // by process: the part of its time that the others do not need
  for (size_t r = 0; r < job.ranks.size(); ++r)
    if (const RankEvidence& e = evidence[r]; e.significant)
      longer[job.ranks[r].process] =
          losesTime(info(e.cause).what_if) ? std::min(1.0, e.excess) : e.excess / (1 + e.excess);
  for (size_t i = 0; i < roots.size(); ++i) {
    if (roots[i] == kNobody) continue;
    const Instance& in = job.table.instances[i];
    Sum& s = sums[roots[i]];
    const auto wait = static_cast<double>(in.wait_ns);
    double counted = wait > 0 ? std::max(0.0, wait - usual[i]) / wait : 0;
    if (auto own = longer.find(roots[i]); own != longer.end() && isPair(in.op))
      counted = std::max(counted, own->second);
    s.cost += counted * wait / 1000;
    s.lost += counted * static_cast<double>(in.exposed_wait_ns) / 1000;
    s.present += in.count;
    s.size += in.group_size;
    ++s.count;
  }
  const bool pipeline = std::any_of(job.table.instances.begin(), job.table.instances.end(),
                                    [](const Instance& in) { return in.op == OpKind::send || in.op == OpKind::recv; });
  std::map<uint32_t, size_t> of_model;
  for (const RankFigures& r : job.ranks) ++of_model[job.models.of(r.process)];
  std::vector<Blame> out;
  const int64_t bound = job.table.domains.size() < 2 ? 0 : worstBound(job.clocks);  // one clock is never off itself
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const auto process = static_cast<int32_t>(job.ranks[r].process);
    const Sum s = sums.contains(process) ? sums[process] : Sum();
    const RankEvidence& e = evidence[r];
    if (s.count == 0 && !e.significant) continue;
    Blame b;
    b.rank = job.rankOf(process);
    b.node = job.nodeOf(process);
    b.cost_us = s.cost;
    b.lost_us = s.lost;
    b.collectives = s.count;
    b.cause = e.cause;
    b.evidence = e.sentence;
    b.significant = e.significant;
    b.since_step = e.since_step;
    if (e.significant) {
      b.slowdown = 1 + e.excess;
      b.confidence = 1 - std::exp(-e.sureness / 6);
      // Two or three ranks have no majority that says what is normal.
      if (of_model[job.models.of(process)] < 4) b.confidence *= 0.7;
      if (!job.clocks_known) b.confidence *= 0.8;
      if (s.size > 0) b.confidence *= 0.5 + 0.5 * s.present / s.size;
      if (auto lost = job.lost.find(process); lost != job.lost.end() && lost->second > 0) b.confidence *= 0.8;
      b.confidence = std::min(b.confidence, 0.99);
    } else if (s.count > 0) {
      const double mean_wait_ns = 1000 * s.cost / static_cast<double>(s.count);
      b.evidence = "last to arrive in " + std::to_string(s.count) + " collectives; its own work does not explain it";
      if (pipeline) b.evidence += ": stages of a pipeline wait for each other by design";
      if (job.mixed && std::find(job.mixed->slow.begin(), job.mixed->slow.end(), b.rank) != job.mixed->slow.end()) {
        b.cause = Cause::mixed_devices;
        b.evidence = "its GPU is of a slower model (" + job.mixed->slow_model + ")";
      }
      b.confidence = !job.clocks_known || static_cast<double>(bound) > mean_wait_ns ? 0.1 : 0.3;
    }
    if (e.significant && (e.cause == Cause::compute || e.cause == Cause::jitter)) {
      auto device = job.device_of.find(process);
      int64_t from = INT64_MIN;
      for (const StepFigures& f : job.ranks[r].steps)
        if (e.since_step != kNull && f.step == e.since_step) from = f.ts;
      if (device != job.device_of.end() && !job.gpus_shared) {  // the state of a GPU they share tells no rank apart
        const Finding finding = job.telemetry.explain(b.node, device->second, from, job.models);
        if (!finding.sentence.empty()) b.evidence += "; " + finding.sentence;
        if (finding.cause) b.cause = *finding.cause;
      }
    }
    out.push_back(std::move(b));
  }
  std::stable_sort(out.begin(), out.end(), [](const Blame& a, const Blame& b) {
    return a.significant != b.significant ? a.significant : a.cost_us > b.cost_us;
  });
  return out;
}

}  // namespace tracesmith::analysis
