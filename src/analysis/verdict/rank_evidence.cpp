// Is a rank's own work slower than that of its peers, and in which way? Needs no common clock.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "analysis/rows/trends.hpp"
#include "analysis/verdict/job_data.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"

namespace tracesmith::analysis {

using trace::kNull;

namespace {

// Ranks differ by one or two per cent in any cluster: less than this is no finding.
constexpr double kLeastCompute = 0.025;
constexpr double kLeastHost = 0.015;
constexpr double kLeastWork = 0.05;
constexpr double kSure = 5;       // standard errors
constexpr double kJittery = 2.5;  // times the usual variation from step to step
// In jobs without a fault, hosts differ by this part of a step all along (standard deviation over 20 real recordings).
constexpr double kHostScatter = 0.003;

template <typename Value>
Series seriesOf(const JobData& job, Value value) {
  Series out;
  for (const RankFigures& rank : job.ranks) {
    std::vector<double> row(job.steps.size(), kUnknown);
    for (const StepFigures& f : rank.steps) {
      auto column = std::lower_bound(job.steps.begin(), job.steps.end(), f.step);
      if (column != job.steps.end() && *column == f.step && f.known())
        row[static_cast<size_t>(column - job.steps.begin())] = value(f);
    }
    out.rows.push_back(std::move(row));
  }
  // The first step warms up, and ranks do not begin together; the last may be cut.
  if (job.steps.size() >= 6)
    for (auto& row : out.rows) row.front() = row.back() = kUnknown;
  return out;
}

/// How much of a rank's computation cannot be compared with that of others, kernel by kernel.
double ownPart(const RankFigures& rank) {
  double own = 0, all = 0;
  for (const StepFigures& f : rank.steps) {
    own += f.own_ns;
    all += static_cast<double>(f.computeNs());
  }
  return all > 0 ? own / all : 0;
}

constexpr double kSureRegular = 10;   // standard errors: pauses that come regularly are no accident
constexpr double kPause = 0.25;       // of a step: a host that launches nothing for longer pauses,
constexpr double kPauseShare = 0.8;   // if that is most of what it is late in all,
constexpr double kPauseSteps = 0.35;  // and comes in few of the steps

/// Single steps in which a rank's host launched nothing for long, while it is as quick as the others in the rest.
struct Pauses {
  std::vector<size_t> columns;
  double ns = 0;     // in all
  double share = 0;  // of its time
  size_t every = 0;  // steps; 0: not regular
  Cause cause = Cause::host;
};

/// A checkpoint copies to the host what it saves; a range may say what it is. Otherwise nobody knows what a host does.
Cause causeOf(const JobData& job, const RankFigures& rank, const Pauses& p) {
  constexpr double kLeastCopied = 0.01;  // of the pauses
  constexpr double kMoreCopied = 3;      // times what is copied in other steps
  constexpr double kExplained = 0.5;     // of the pauses, by ranges
  double paused_copies = 0, saved = 0, collected = 0, other_copies = 0, others = 0;
  for (const StepFigures& f : rank.steps) {
    const auto paused =
        std::any_of(p.columns.begin(), p.columns.end(), [&](size_t c) { return job.steps[c] == f.step; });
    others += !paused;
    (paused ? paused_copies : other_copies) += static_cast<double>(f.to_host_ns);
    if (!paused) continue;
    saved += static_cast<double>(f.pause_ns[static_cast<size_t>(Pause::checkpoint)]);
    collected += static_cast<double>(f.pause_ns[static_cast<size_t>(Pause::collection)]);
  }
  if (collected >= kExplained * p.ns) return Cause::garbage_collection;
  const double usual = others > 0 ? other_copies / others * static_cast<double>(p.columns.size()) : 0;
  if (saved >= kExplained * p.ns || (paused_copies >= kLeastCopied * p.ns && paused_copies >= kMoreCopied * usual))
    return Cause::checkpoint;
  return Cause::host;
}

std::vector<Pauses> pausesOf(const JobData& job) {
  auto late_ns = [](const StepFigures& f) { return static_cast<double>(f.host_late_ns); };
  auto wall_ns = [](const StepFigures& f) { return static_cast<double>(f.end - f.ts); };
  const Series late = seriesOf(job, late_ns), wall = seriesOf(job, wall_ns);
  std::vector<Pauses> out(late.rows.size());
  if (job.step_ns <= 0 || out.size() < 2) return out;
  std::vector<double> usual;
  for (size_t c = 0; c < job.steps.size(); ++c) {
    std::vector<double> values;
    for (const auto& row : late.rows) values.push_back(row[c]);
    usual.push_back(median(std::move(values)));
  }
  for (size_t r = 0; r < out.size(); ++r) {
    Pauses p;
    double all = 0, time = 0;
    size_t steps = 0;
    for (size_t c = 0; c < job.steps.size(); ++c) {
      const double excess = late.rows[r][c] - usual[c];
      if (std::isnan(excess)) continue;
      ++steps;
      time += wall.rows[r][c];
      all += std::max(0.0, excess);
      if (excess < kPause * job.step_ns) continue;
      p.columns.push_back(c);
      p.ns += excess;
    }
    const auto count = static_cast<double>(p.columns.size());
    if (p.columns.empty() || p.ns < kPauseShare * all ||
        count > std::max(1.0, kPauseSteps * static_cast<double>(steps)))
      continue;
    p.share = p.ns / time;
    if (p.columns.size() >= 2) p.every = p.columns[1] - p.columns[0];
    for (size_t i = 1; i < p.columns.size(); ++i)
      if (p.columns[i] - p.columns[i - 1] != p.every) p.every = 0;
    p.cause = causeOf(job, job.ranks[r], p);
    out[r] = std::move(p);
  }
  return out;
}

/// Of a host without a device.
std::string idleText(double percent) {
  char buffer[120];
  std::snprintf(buffer, sizeof buffer,
                "it neither computes nor communicates for %.1f %% of a step more than the others", percent);
  return buffer;
}

std::string pauseText(const JobData& job, const Pauses& p) {
  std::string steps;
  for (size_t i = 0; i < p.columns.size() && i < 3; ++i)
    steps += (i ? ", " : "") + std::to_string(job.steps[p.columns[i]]);
  if (p.columns.size() > 3) steps += ", …";
  std::string out = std::string(job.host_only ? "it does nothing for " : "its host launches nothing for ") +
                    humanNs(p.ns / static_cast<double>(p.columns.size())) +
                    (p.columns.size() > 1 ? " in each of the steps " : " in step ") + steps;
  if (p.every > 0) out += ", every " + std::to_string(p.every) + " steps";
  if (p.cause == Cause::checkpoint) out += ", as if it saved a checkpoint (it copies more to the host than usual)";
  if (p.cause == Cause::garbage_collection) out += ", and collects garbage";
  if (p.cause == Cause::host && p.every > 0 && !job.host_only)
    out += ", perhaps for garbage collection (it copies no more to the host than usual, as a checkpoint would)";
  return out + "; in the other steps it is as fast as its peers";
}

}  // namespace

namespace {

/// A GPU of a slower model than all others is not idle more often by design, so its host can be compared with theirs.
std::vector<uint32_t> alikeHosts(const JobData& job, std::vector<uint32_t> groups) {
  if (!job.mixed || !job.mixed->alone) return groups;
  std::map<uint32_t, size_t> sizes;
  for (uint32_t g : groups) ++sizes[g];
  const uint32_t largest = std::max_element(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) {
                             return a.second < b.second;
                           })->first;
  for (size_t r = 0; r < groups.size(); ++r)
    if (job.rankOf(job.ranks[r].process) == job.mixed->slow[0]) groups[r] = largest;
  return groups;
}

/// The rank that is alone on its model: slower than what was measured of the two models explains.
void besideItsCapability(const JobData& job, std::vector<RankEvidence>& out) {
  constexpr double kLeast = 0.25;  // models differ by kernel: what was measured is a bound, and not a sharp one
  if (!job.mixed || !job.mixed->alone) return;
  const MixedDevices& m = *job.mixed;
  for (size_t r = 0; r < out.size(); ++r) {
    if (job.rankOf(job.ranks[r].process) != m.slow[0] || out[r].significant) continue;
    const double excess = m.factor / m.measured_ratio - 1;
    if (!(excess >= kLeast)) continue;  // also where nothing was measured
    char text[200];
    std::snprintf(text, sizeof text,
                  "it computes %.1f × as long as the others, and the benchmark of its GPU (%s) explains %.1f ×",
                  m.factor, m.slow_model.c_str(), m.measured_ratio);
    out[r].cause = Cause::compute;
    out[r].sentence = text;
    out[r].excess = excess;
    out[r].sureness = kSure;
    out[r].significant = true;
  }
}

/// A stage of a pipeline all ranks of which compute longer than those of the other stages.
void slowStages(const JobData& job, const Series& load, std::vector<RankEvidence>& out) {
  std::map<uint32_t, std::vector<size_t>> stages;
  for (size_t r = 0; r < job.ranks.size(); ++r) stages[job.stageOf(job.ranks[r].process)].push_back(r);
  if (stages.size() < 2) return;
  Series series;
  std::vector<uint32_t> models;
  std::vector<const std::vector<size_t>*> members;
  for (const auto& [stage, ranks] : stages) {
    if (ranks.size() < 2) return;  // single ranks were compared with each other
    std::vector<double> row;
    for (size_t c = 0; c < job.steps.size(); ++c) {
      std::vector<double> values;
      for (size_t r : ranks) values.push_back(load.rows[r][c]);
      row.push_back(median(std::move(values)));
    }
    series.rows.push_back(std::move(row));
    models.push_back(job.models.of(job.ranks[ranks[0]].process));
    members.push_back(&ranks);
  }
  const std::vector<Trend> trends = trendsOf(series, true, models);
  for (size_t s = 0; s < trends.size(); ++s) {
    const Trend& t = trends[s];
    const std::vector<size_t>& own = *members[s];
    if (std::all_of(own.begin(), own.end(),
                    [&](size_t r) { return out[r].significant && out[r].cause == out[own[0]].cause; })) {
      for (size_t r : own) out[r].together = own;
      continue;
    }
    if (t.excess < kLeastWork || t.sureness < kSure || t.points < 3) continue;
    // A rank that makes the others of its stage wait is the one to name.
    if (std::any_of(own.begin(), own.end(), [&](size_t r) { return out[r].significant; })) continue;
    for (size_t r : own) {
      out[r].cause = Cause::slow_stage;
      out[r].sentence = sentenceOf(Cause::slow_stage, 1 + t.excess);
      out[r].excess = t.excess;
      out[r].sureness = t.sureness;
      out[r].significant = true;
      out[r].together = own;
      if (t.changed) out[r].since_step = job.steps[t.since];
    }
  }
}

}  // namespace

std::vector<RankEvidence> rankEvidence(const JobData& job) {
  std::vector<RankEvidence> out(job.ranks.size());
  if (job.ranks.empty()) return out;
  auto part = [](int64_t ns, const StepFigures& f) {
    return f.end > f.ts ? static_cast<double>(ns) / static_cast<double>(f.end - f.ts) : kUnknown;
  };
  const Series ratios =
      seriesOf(job, [](const StepFigures& f) { return f.expected_ns > 0 ? f.actual_ns / f.expected_ns : kUnknown; });
  Series late = seriesOf(job, [&](const StepFigures& f) { return part(f.host_late_ns, f); });
  const std::vector<Pauses> pauses = pausesOf(job);
  for (size_t r = 0; r < pauses.size(); ++r)
    for (size_t c : pauses[r].columns) late.rows[r][c] = kUnknown;  // the other steps are judged by themselves
  const Series data = seriesOf(job, [&](const StepFigures& f) { return part(f.data_ns, f); });
  const Series load = seriesOf(
      job, [](const StepFigures& f) { return f.computeNs() > 0 ? static_cast<double>(f.computeNs()) : kUnknown; });
  // Kernels of one name and shape are the same work in every stage of a pipeline; how many there are, is not.
  const std::vector<uint32_t> by_model = alike(job, false), by_stage = alike(job, true);
  const std::vector<uint32_t> hosts = alikeHosts(job, by_stage);
  // Ranks that share a GPU do not get the same part of it.
  const double shared = job.gpus_shared ? 0 : kUnknown;
  const std::vector<Trend> compute = trendsOf(ratios, true, by_model, shared),
                           host = trendsOf(late, false, hosts, kHostScatter), loader = trendsOf(data, false, hosts),
                           work = trendsOf(load, true, by_stage);
  for (size_t r = 0; r < out.size(); ++r) {
    RankEvidence& e = out[r];
    const bool slow = compute[r].excess >= kLeastCompute && compute[r].sureness >= kSure;
    const bool tardy = host[r].excess >= kLeastHost && host[r].sureness >= kSure;
    auto take = [&](Cause cause, const Trend& t, double measured) {
      std::string sentence = job.host_only && cause == Cause::host ? idleText(measured) : sentenceOf(cause, measured);
      e.cause = cause;
      e.excess = t.excess;
      e.sureness = t.sureness;
      e.significant = t.points >= 3;
      if (t.changed) {
        e.since_step = job.steps[t.since];
        if (e.since_step != kNull) sentence += " since step " + std::to_string(e.since_step);
      }
      e.sentence = std::move(sentence);
    };
    const bool uneven = work[r].excess >= kLeastWork && work[r].sureness >= kSure &&
                        ownPart(job.ranks[r]) >= work[r].excess / (1 + work[r].excess) / 2;
    if (uneven && work[r].excess > std::max(compute[r].excess, host[r].excess)) {
      take(job.host_only ? Cause::host_work : Cause::uneven_work, work[r], 1 + work[r].excess);
    } else if (slow && (!tardy || compute[r].excess >= host[r].excess)) {
      const bool jittery = compute[r].spread > kJittery && !compute[r].changed;
      take(jittery ? Cause::jitter : Cause::compute, compute[r], 1 + compute[r].excess);
    } else if (tardy) {
      const bool loading = loader[r].excess >= host[r].excess / 2;
      take(loading ? Cause::data_loading : Cause::host, host[r], 100 * host[r].excess);
    } else if (pauses[r].share >= kLeastHost) {
      const Pauses& p = pauses[r];
      e.cause = p.cause;
      e.excess = p.share;
      e.sureness = p.every > 0 || p.cause == Cause::garbage_collection ? kSureRegular : kSure;
      e.significant = true;
      e.sentence = pauseText(job, p);
    }
  }
  besideItsCapability(job, out);
  slowStages(job, load, out);
  return out;
}

}  // namespace tracesmith::analysis
