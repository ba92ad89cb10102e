// Faults put into simulated jobs: does the analysis name the right rank or link, and is it quiet when nothing is wrong?
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "capture/sim/rows.hpp"
#include "measure.hpp"
#include "tracesmith/analysis/analysis.hpp"

using namespace tracesmith;

namespace {

struct Case {
  sim::JobConfig job;
  std::string kind;
  double size = 0, other_size = 0;  // how much slower, as a part of 1
  int rank = -1, other_rank = -1;   // that are slow or late
  std::string node;                 // with slow links
};

constexpr int kKinds = 9;
constexpr double kCostKnown = 3;  // percent; below, a cost is as good as any other

/// Half of the jobs have stages and tensor groups, a quarter shards its parameters. `links`: those within a node are
/// what is slow; `all`: all ranks must meet.
void layOut(sim::JobConfig& job, bool links, bool all, sim::Random& random) {
  const uint64_t which = random.next() % 8;
  job.sharded = which < 2 && !links;
  if (which < 4) return;
  if (which == 4 && !links && !all && job.ranks <= 32) {
    job.stages_only = true;
    job.pipeline = random.next() % 2 && job.ranks <= 16 ? job.ranks : job.ranks > 8 ? 8 : 4;
    job.tensor = job.ranks / job.pipeline;
    if (job.tensor == 1) job.tensor = 0;
    job.in_turn = job.tensor == 0;
    if (job.in_turn && job.pipeline <= 8 && random.next() % 2) {
      job.chunks = 2;
      job.microbatches = 8;
    }
    if (job.in_turn) return;
    if (job.tensor <= job.gpus_per_node && job.gpus_per_node % job.tensor == 0) return;
    job.stages_only = false;
  }
  static constexpr int kStages[] = {1, 2, 4, 8}, kTensor[] = {0, 2, 4};
  job.tensor = kTensor[random.next() % 3];
  job.pipeline = kStages[random.next() % 4];
  job.microbatches = 4 << random.next() % 2;
  while (job.tensor > job.gpus_per_node) job.tensor /= 2;
  while (job.pipeline * std::max(1, job.tensor) * 2 > job.ranks) job.pipeline /= 2;  // at least two of every stage
  job.in_turn = job.pipeline > 1 && !links && random.next() % 2;
  if (job.in_turn && job.pipeline > 2 && job.microbatches % job.pipeline == 0 && random.next() % 2) job.chunks = 2;
}

double stepMs(const sim::JobConfig& config) {
  const sim::Job job(config);
  double ns = 0;
  for (const sim::Op& op : job.ops())
    if (op.kind == sim::OpKind::kernel) ns += static_cast<double>(job.kernels()[op.kernel].base_ns) + 800;
  return ns / 1e6;
}

/// The k-th case: kinds and numbers of ranks in turn, everything else from the seed.
Case makeCase(int k, uint64_t seed) {
  static constexpr int kRanks[] = {8, 16, 32, 64, 128, 256, 512};
  static constexpr int kPerNode[] = {8, 4, 2};
  static constexpr double kSizes[] = {0.05, 0.07, 0.10, 0.20, 0.50};
  Case c;
  sim::Random random(seed * 7919 + static_cast<uint64_t>(k));
  const int kind = k / 7 % kKinds;
  c.job.ranks = kRanks[k % 7];
  c.job.gpus_per_node = c.job.ranks > 64 ? 8 : kPerNode[random.next() % 3];
  // A single communicator has nobody to be compared with: at least two nodes.
  while (c.job.ranks / c.job.gpus_per_node < 2) c.job.gpus_per_node /= 2;
  layOut(c.job, kind == 3 || kind == 7, kind == 8, random);
  c.job.events = static_cast<uint64_t>(c.job.ranks) * (24000 + random.next() % 24000);
  c.job.seed = seed * 1000 + static_cast<uint64_t>(k);
  sim::Faults& faults = c.job.faults = sim::Faults::none();
  faults.jitter = random.next() % 3 == 0 ? 0.05 : 0;
  c.size = kSizes[random.next() % 5];
  c.other_size = kSizes[random.next() % 5];
  faults.from_step = random.next() % 2 ? sim::Job(c.job).steps() / 2 : 0;
  const auto ranks = static_cast<uint64_t>(c.job.ranks);
  const auto rank = static_cast<int>(random.next() % ranks);
  const auto other = static_cast<int>((static_cast<uint64_t>(rank) + 1 + random.next() % (ranks - 1)) % ranks);
  auto slowRank = [&] {
    c.rank = faults.slow_rank = rank;
    faults.slowdown = 1 + c.size;
  };
  auto slowLink = [&](double size) {
    if (c.job.laidOut() && c.job.tensor == 0) c.job.tensor = 2;  // links within a node are what is slow
    const int nodes = sim::Job(c.job).nodes();
    faults.slow_node = static_cast<int>(random.next() % static_cast<uint64_t>(nodes));
    faults.link_slowdown = 1 + size;
    c.node = "node" + std::to_string(faults.slow_node);
  };
  switch (kind) {
    case 0:
    case 1:
      c.kind = "slow rank";
      slowRank();
      break;
    case 2:
      c.kind = "late data";
      c.rank = faults.late_rank = rank;
      faults.late_ms = c.size * stepMs(c.job);
      break;
    case 3:
      c.kind = "slow link";
      slowLink(c.size);
      break;
    case 4:
    case 5:
      c.kind = "clean";
      break;
    case 6:
      c.kind = "two slow ranks";
      slowRank();
      c.other_rank = other;
      faults.also_slow.emplace_back(other, 1 + c.other_size);
      break;
    case 7:
      c.kind = "rank and link";
      slowRank();
      slowLink(c.other_size);
      break;
    default:
      c.kind = "checkpoint";  // rank 0 saves one every 4 steps while all wait
      c.rank = 0;
      faults.checkpoint_every = 4;
      faults.checkpoint_ms = (1 + 4 * random.uniform()) * stepMs(c.job);
      faults.from_step = 0;
  }
  return c;
}

/// What the analysis said of one rank or node: named in the verdict, or found at all.
struct Named {
  bool first = false, found = false;
};

Named rankNamed(const analysis::Analysis& a, int rank) {
  Named n;
  n.first = a.verdict.kind == analysis::VerdictKind::rank && a.verdict.rank == rank;
  for (const analysis::Blame& b : a.blame) n.found |= b.significant && b.rank == rank;
  return n;
}

Named nodeNamed(const analysis::Analysis& a, const std::string& node) {
  Named n;
  n.first = a.verdict.kind == analysis::VerdictKind::link && a.verdict.node == node;
  for (const analysis::LinkResult& l : a.links) n.found |= l.significant && l.nodes.size() == 1 && l.nodes[0] == node;
  return n;
}

/// One fault must be the verdict. Of two the verdict is one, and the other is found too, or is the smaller one.
bool isRight(const Case& c, const analysis::Analysis& a) {
  const bool named = a.verdict.kind == analysis::VerdictKind::rank || a.verdict.kind == analysis::VerdictKind::link;
  if (c.kind == "clean") return !named;
  if (c.kind == "slow link") return nodeNamed(a, c.node).first;
  const Named one = rankNamed(a, c.rank);
  if (c.kind == "checkpoint") return one.first && a.verdict.cause == Cause::checkpoint;
  if (c.other_rank < 0 && c.node.empty()) return one.first;
  const Named two = c.other_rank >= 0 ? rankNamed(a, c.other_rank) : nodeNamed(a, c.node);
  return (one.first && (two.found || c.size >= c.other_size)) || (two.first && (one.found || c.other_size >= c.size));
}

/// How long the job takes, simulated without writing it. Every window has all ranks: the last step is in the last one.
double jobNs(const sim::JobConfig& config) {
  const sim::Job job(config);
  sim::JobRows rows(job);
  int64_t end = 0;
  while (rows.nextWindow(2))
    for (int rank = 0; rank < config.ranks; ++rank) end = std::max(end, rows.stepEnd(rows.lastStep() - 1, rank));
  return static_cast<double>(end);
}

/// Percent of its time that the job saves without its faults.
double savedPct(const Case& c) {
  sim::JobConfig healthy = c.job;
  const double jitter = healthy.faults.jitter;
  healthy.faults = sim::Faults::none();
  healthy.faults.jitter = jitter;
  return 100 * (1 - jobNs(healthy) / jobNs(c.job));
}

struct Score {
  int runs = 0, right = 0, wrong = 0, silent = 0;  // wrong: another rank or link named; silent: nobody, or not all
};

}  // namespace

int main(int argc, char** argv) {
  bench::usage(argc, argv, "fault_bench [--runs 378] [--first 0] [--seed 1] [--json FILE] [--verbose] [--smoke]");
  const int runs =
      std::atoi(bench::option(argc, argv, "--runs", bench::flag(argc, argv, "--smoke") ? "9" : "378").c_str());
  const auto seed = std::strtoull(bench::option(argc, argv, "--seed", "1").c_str(), nullptr, 10);
  const std::string json = bench::option(argc, argv, "--json", "");
  const bool verbose = bench::flag(argc, argv, "--verbose");
  const std::string path =
      (std::filesystem::temp_directory_path() / ("fault_bench." + std::to_string(::getpid()) + ".sbt")).string();
  std::map<std::string, Score> by_kind;
  std::map<std::string, Score> by_size;
  int confident_wrong = 0, costs = 0, costs_right = 0;
  const int first = std::atoi(bench::option(argc, argv, "--first", "0").c_str());
  for (int k = first; k < first + runs; ++k) {
    const Case c = makeCase(k, seed);
    if (Status s = sim::synthesize(c.job, path, 2); !s) return std::fprintf(stderr, "%s\n", s.message().c_str()), 1;
    auto reader = trace::Reader::open(path);
    if (!reader) return 1;
    analysis::AnalyzeOptions options;
    options.hta = options.collectives = false;
    auto result = analysis::analyze(**reader, options);
    if (!result) return std::fprintf(stderr, "%s\n", result.status().message().c_str()), 1;
    const analysis::Verdict& v = result->verdict;
    const bool named = v.kind == analysis::VerdictKind::rank || v.kind == analysis::VerdictKind::link;
    const bool right = isRight(c, *result);
    const bool wrong_one = named && !(c.rank >= 0 && rankNamed(*result, c.rank).first) &&
                           !(c.other_rank >= 0 && rankNamed(*result, c.other_rank).first) &&
                           !(!c.node.empty() && nodeNamed(*result, c.node).first);
    char size[40] = "";
    std::snprintf(size, sizeof size, " %.0f %%", 100 * c.size);
    for (Score* s : {&by_kind[c.kind], &by_size[c.kind == "clean" || c.kind == "checkpoint" ? c.kind : c.kind + size],
                     &by_kind[c.job.stages_only    ? "stages only"
                              : c.job.pipeline > 1 ? "with a pipeline"
                              : c.job.tensor > 0   ? "with tensor groups"
                              : c.job.sharded      ? "sharded"
                                                   : "data parallel"]}) {
      ++s->runs;
      s->right += right;
      s->wrong += !right && wrong_one;
      s->silent += !right && !wrong_one;
    }
    confident_wrong += wrong_one && v.confidence >= 0.7;
    // Of one rank at fault the cost is known: it must be within a third of what is saved without the fault.
    const bool one_rank = right && (c.kind == "slow rank" || c.kind == "late data" || c.kind == "checkpoint");
    const double saved = one_rank ? savedPct(c) : 0;
    const bool cost_right = std::abs(v.cost_pct - saved) <= saved / 3;
    costs += saved > kCostKnown;
    costs_right += saved > kCostKnown && cost_right;
    if (saved > kCostKnown && (verbose || !cost_right))
      std::printf("%s %3d  %s%s%s: cost %.1f %%, truth %.1f %%\n", cost_right ? "ok   " : "COST ", k, c.kind.c_str(),
                  c.job.chunks > 1     ? ", interleaved"
                  : c.job.pipeline > 1 ? c.job.in_turn ? ", 1F1B" : ", pipeline"
                  : c.job.sharded      ? ", sharded"
                                       : "",
                  c.job.stages_only ? ", stages only" : "", v.cost_pct, saved);
    if (verbose || !right)
      std::printf(
          "%s %3d  %-14s %+.2f %+.2f  %3d ranks, %d a node, pp %d tp %d%s, from %d of %d, jitter %.2f: %s (truth rank "
          "%d, "
          "%d %s) sure %.2f\n",
          right ? "ok   " : "WRONG", k, c.kind.c_str(), c.size, c.other_size, c.job.ranks, c.job.gpus_per_node,
          c.job.pipeline, c.job.tensor,
          c.job.sharded       ? " sharded"
          : c.job.stages_only ? " stages only"
                              : "",
          c.job.faults.from_step, sim::Job(c.job).steps(), c.job.faults.jitter, v.text.c_str(), c.rank, c.other_rank,
          c.node.c_str(), v.confidence);
    std::fflush(stdout);
  }
  std::filesystem::remove(path);
  std::string text;
  JsonWriter w(text);
  w.beginObject()
      .field("runs", runs)
      .field("seed", static_cast<uint64_t>(seed))
      .field("wrong_and_sure", confident_wrong)
      .field("costs", costs)
      .field("costs_within_a_third", costs_right);
  w.key("kinds").beginObject();
  std::printf("%-18s %6s %6s %8s %8s\n", "", "runs", "right", "another", "nobody");
  for (const auto* group : {&by_size, &by_kind})
    for (const auto& [kind, s] : *group) {
      std::printf("%-18s %6d %6d %8d %8d  %.1f %%\n", kind.c_str(), s.runs, s.right, s.wrong, s.silent,
                  100.0 * s.right / s.runs);
      if (group == &by_kind)
        w.key(kind)
            .beginObject()
            .field("runs", s.runs)
            .field("right", s.right)
            .field("another", s.wrong)
            .field("nobody", s.silent)
            .endObject();
    }
  w.endObject().endObject();
  std::printf("named another with confidence ≥ 0.7: %d\n", confident_wrong);
  std::printf("cost within a third of the truth, where that is over %.0f %%: %d of %d\n", kCostKnown, costs_right,
              costs);
  if (!json.empty()) std::ofstream(json) << text << "\n";
  return 0;
}
