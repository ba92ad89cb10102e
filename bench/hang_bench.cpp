// Faults put into modelled jobs of 8 to 512 ranks (data, tensor and pipeline parallel groups): does the watcher of a
// cluster name the right ranks, how soon, and is it quiet when nothing is wrong?
#include <fstream>
#include <map>

#include "analysis/live/watcher.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "live_model.hpp"
#include "measure.hpp"

using namespace tracesmith;
using namespace tracesmith::bench;
using namespace tracesmith::analysis::live;

namespace {

constexpr int kRanks[] = {8, 16, 32, 64, 128, 256, 512};
constexpr int kSizes = 7, kKinds = 10;
const char* const kKindNames[kKinds] = {"hang of one rank",  "stopped (SIGSTOP)",  "died",          "silent node",
                                        "another operation", "another size",       "several ranks", "slow rank",
                                        "slow link",         "slow link of stages"};
constexpr int kSlowRank = 7, kSlowLink = 8, kSlowPair = 9;
constexpr double kInTime = 5;
constexpr double kSlowAt = 180, kSlowUntil = 480;  // s: when a rank or link becomes slow, and how long one may look

/// Data parallel alone, with tensor groups, with a pipeline, with both; long and short steps; jitter.
ModelConfig jobOf(int ranks, uint64_t seed, sim::Random& random, bool pipeline = false) {
  ModelConfig c;
  static constexpr int kPp[] = {1, 1, 4, 2}, kTp[] = {1, 4, 1, 2};
  const auto layout = pipeline ? 2 + random.next() % 2 : random.next() % 4;
  c.pp = kPp[layout];
  c.tp = kTp[layout];
  c.dp = ranks / c.pp / c.tp;
  c.per_node = random.next() % 4 == 0 ? 4 : 8;
  static constexpr double kSteps[] = {0.05, 0.2, 0.5, 1, 2};
  c.step_s = kSteps[random.next() % 5];
  c.noise = random.next() % 2 ? 0.04 : 0.3;
  c.stall_rate = random.next() % 2 ? 0.002 : 0;
  c.stall_ms = 300;
  c.ahead = static_cast<int>(random.next() % 8);
  c.stream_per_comm = random.next() % 2;
  c.held = random.next() % 2 ? 12 : 0;
  c.seed = seed;
  return c;
}

void addFaults(ModelConfig& c, int kind, sim::Random& random) {
  ModelFault f;
  f.kind = kind < 6            ? static_cast<ModelFault::Kind>(kind)
           : kind == kSlowRank ? ModelFault::slow
           : kind == kSlowLink ? ModelFault::slow_link
           : kind == kSlowPair ? ModelFault::slow_pair
                               : ModelFault::hang;
  f.step = static_cast<int>((20 + 40 * random.uniform()) / c.step_s);
  if (kind >= kSlowRank) f.step = static_cast<int>(kSlowAt / c.step_s);
  static constexpr double kSlow[] = {0.05, 0.07, 0.1, 0.2, 0.5};
  f.size = kSlow[random.next() % 5];
  const auto ranks = static_cast<uint64_t>(c.ranks());
  const int count = kind == 6 ? 2 + static_cast<int>(random.next() % 2) : 1;
  for (int i = 0; i < count; ++i) {
    f.rank = static_cast<int>(random.next() % ranks);
    f.op = static_cast<int>(random.next() % 64);
    c.faults.push_back(f);
  }
}

struct Outcome {
  bool named = false, right = false;
  double after_s = 0, confidence = 0;
  std::string text;
};

/// Plays a job until the watcher finds the fault, or has had a minute for it.
Outcome play(const ModelConfig& config, bool slow) {
  LiveModel model(config);
  Watcher watcher;
  Outcome o;
  for (int64_t t = 0; t < 1200 * kS; t += kS / 2) {
    for (const LiveModel::Due& due : model.until(t)) watcher.take(due.report, due.at_ns);
    const std::vector<Alert> alerts = watcher.look(t);
    if (slow) {
      for (const Alert& a : alerts) {
        if (a.kind == AlertKind::slow_step) continue;
        const bool right = a.kind == AlertKind::slow_rank
                               ? a.text.starts_with("rank " + std::to_string(config.faults[0].rank) + " on")
                               : a.kind == AlertKind::slow_link && a.text.find(model.slowComm()) != std::string::npos;
        o = {true,
             right && t >= model.slowAt() &&
                 (a.kind == AlertKind::slow_link) == (config.faults[0].kind != ModelFault::slow),
             static_cast<double>(t - model.slowAt()) * 1e-9, 0.5, a.text};
        return o;
      }
      if (t > static_cast<int64_t>(kSlowUntil * 1e9)) return o;
      continue;
    }
    const HangVerdict& v = watcher.verdict();
    if (v.state == HangState::hang) {
      std::set<int> named;
      for (const Culprit& c : v.culprits) named.insert(c.rank);
      const std::set<int>& truth = model.culprits();
      const bool none_wrong = !named.empty() && std::includes(truth.begin(), truth.end(), named.begin(), named.end());
      // Of two that differ nobody can say which is wrong: both, and not sure.
      const bool tie = v.confidence <= 0.5 && named.size() == 2 && truth.size() == 1 && named.contains(*truth.begin());
      if (!o.named)
        o = {true, model.stalledAt() <= t && (none_wrong || tie), static_cast<double>(t - model.stalledAt()) * 1e-9,
             v.confidence, v.verdict};
      // Faults that come later have their time too; of a silent node those that are waited for are enough.
      if (!o.right || named == truth || tie || config.faults[0].kind == ModelFault::silent_node) return o;
      if (t > model.stalledAt() + 30 * kS) {
        o.right = false;
        o.text = v.verdict;
        return o;
      }
    }
    if (t > model.stalledAt() + 60 * kS) return o;
  }
  return o;
}

struct Score {
  int runs = 0, right = 0, in_time = 0, another = 0, nobody = 0, sure = 0;
  std::vector<double> after_s;
};

/// Jobs in which nothing is wrong, with jitter, pauses and checkpoints (in half of them by rank 0 while all wait):
/// every alert is a false one, except a remark about a single step, which is true and counted apart.
void playClean(double hours, uint64_t seed, bool verbose, double& rank_hours, double& with_stages,
               std::map<std::string, int>& alerts, int& remarks) {
  sim::Random random(seed * 31 + 7);
  for (int k = 0; rank_hours < hours; ++k) {
    ModelConfig c = jobOf(kRanks[kSizes - 1 - k % kSizes], seed * 777 + static_cast<uint64_t>(k), random);
    c.step_s = std::max(c.step_s, 0.5);
    c.stall_rate = 0.002;
    c.stall_ms = 800;
    c.checkpoint_every = static_cast<int>(200 / c.step_s);
    c.checkpoint_s = 5 + 30 * random.uniform();
    c.saved_by_one = random.next() % 2;
    LiveModel model(c);
    Watcher watcher;
    const int64_t length = 1800 * kS;
    for (int64_t t = 0; t < length; t += kS / 2) {
      for (const LiveModel::Due& due : model.until(t)) watcher.take(due.report, due.at_ns);
      for (const Alert& a : watcher.look(t)) {
        if (a.severity == Severity::info)
          ++remarks;
        else
          ++alerts[nameOf(a.kind)];
        if (verbose)
          std::printf("FALSE %d ranks, step %.2f s: %s: %s\n", c.ranks(), c.step_s, nameOf(a.kind), a.text.c_str());
      }
    }
    const double played = c.ranks() * static_cast<double>(length) / 3.6e12;
    rank_hours += played;
    if (c.pp > 1) with_stages += played;
  }
}

}  // namespace

int main(int argc, char** argv) {
  usage(argc, argv,
        "hang_bench [--runs 560] [--first 0] [--only KIND] [--clean-hours 3000] [--seed 1] [--json FILE] [--verbose] "
        "[--smoke]");
  const bool smoke = flag(argc, argv, "--smoke"), verbose = flag(argc, argv, "--verbose");
  const int runs = std::atoi(option(argc, argv, "--runs", smoke ? "20" : "560").c_str());
  const int first = std::atoi(option(argc, argv, "--first", "0").c_str());
  const double hours = std::atof(option(argc, argv, "--clean-hours", smoke ? "10" : "3000").c_str());
  const auto seed = std::strtoull(option(argc, argv, "--seed", "1").c_str(), nullptr, 10);
  const std::string json = option(argc, argv, "--json", ""), only = option(argc, argv, "--only", "");
  std::map<std::string, Score> scores;
  for (int k = first; k < first + runs; ++k) {
    sim::Random random(seed * 7919 + static_cast<uint64_t>(k));
    if (!only.empty() && only != kKindNames[k % kKinds]) continue;
    const int kind = k % kKinds, ranks = smoke ? kRanks[k / kKinds % 3] : kRanks[k / kKinds % kSizes];
    ModelConfig c = jobOf(ranks, seed * 100'000 + static_cast<uint64_t>(k), random, kind == kSlowPair);
    if (kind == 3) c.per_node = std::min(c.per_node, ranks / 2);  // somebody must be left to tell
    addFaults(c, kind, random);
    const Outcome o = play(c, kind >= kSlowRank);
    std::vector<Score*> into = {&scores[kKindNames[kind]]};
    if (kind < kSlowRank) into.push_back(&scores["all that stand still"]);
    for (Score* s : into) {
      ++s->runs;
      s->right += o.right;
      s->in_time += o.right && o.after_s <= kInTime;
      s->another += o.named && !o.right;
      s->nobody += !o.named;
      s->sure += o.named && !o.right && o.confidence >= 0.7;
      if (o.right) s->after_s.push_back(o.after_s);
    }
    if (verbose || !o.right) {
      std::string truth;
      for (const ModelFault& f : c.faults)
        truth += std::to_string(f.rank) + "@" + std::to_string(f.step) + "." + std::to_string(f.op) + " ";
      std::printf(
          "%s %3d %-17s %d ranks (pp %d dp %d tp %d), step %.2f s, noise %.2f, size %.2f, after %.1f s, truth %s: %s\n",
          o.right ? "ok   " : "WRONG", k, kKindNames[kind], c.ranks(), c.pp, c.dp, c.tp, c.step_s, c.noise,
          c.faults[0].size, o.after_s, truth.c_str(), o.text.c_str());
    }
    std::fflush(stdout);
  }
  double rank_hours = 0, with_stages = 0;
  std::map<std::string, int> alerts;
  int all_alerts = 0, remarks = 0;
  playClean(hours, seed, verbose, rank_hours, with_stages, alerts, remarks);
  for (const auto& [kind, n] : alerts) all_alerts += n;

  std::string text;
  JsonWriter w(text);
  w.beginObject().field("runs", runs).field("seed", static_cast<uint64_t>(seed)).key("kinds").beginObject();
  std::printf("%-22s %5s %6s %8s %8s %7s %9s %9s\n", "", "runs", "right", "in 5 s", "another", "nobody", "median",
              "longest");
  for (const auto& [kind, s] : scores) {
    std::printf("%-22s %5d %6d %8d %8d %7d %7.1f s %7.1f s  %.1f %%\n", kind.c_str(), s.runs, s.right, s.in_time,
                s.another, s.nobody, quantile(s.after_s, 0.5), quantile(s.after_s, 1), 100.0 * s.right / s.runs);
    w.key(kind).beginObject().field("runs", s.runs).field("right", s.right).field("in_5_s", s.in_time);
    w.field("another", s.another).field("nobody", s.nobody).field("wrong_and_sure", s.sure);
    w.field("median_s", quantile(s.after_s, 0.5)).field("longest_s", quantile(s.after_s, 1)).endObject();
  }
  w.endObject().field("clean_rank_hours", rank_hours).field("false_alarms", all_alerts).endObject();
  std::printf("clean: %.0f rank-hours (%.0f with a pipeline), %d remarks on single steps, %d false alarms", rank_hours,
              with_stages, remarks, all_alerts);
  for (const auto& [kind, n] : alerts) std::printf(" (%s %d)", kind.c_str(), n);
  std::printf("\n");
  if (!json.empty()) std::ofstream(json) << text << "\n";
  return 0;
}
