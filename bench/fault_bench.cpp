// Faults put into simulated jobs: does the analysis name the right rank or link, and is it quiet when nothing is wrong?
//   fault_bench [--runs 420] [--first 0] [--seed 1] [--json FILE] [--verbose] [--smoke]
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
  std::string kind;  // slow rank, late rank, slow link, clean
  double size = 0;   // how much slower, as a part of 1
};

/// The k-th case: sizes, places, sizes of faults and noise in turn, places from the seed.
Case makeCase(int k, uint64_t seed) {
  static constexpr int kRanks[] = {8, 16, 32, 64, 128, 256, 512};
  static constexpr int kPerNode[] = {8, 4, 2};
  static constexpr double kSizes[] = {0.05, 0.07, 0.10, 0.20, 0.50};
  Case c;
  sim::Random random(seed * 7919 + static_cast<uint64_t>(k));
  c.job.ranks = kRanks[k % 7];
  c.job.gpus_per_node = kPerNode[random.next() % 3];
  if (c.job.ranks > 64) c.job.gpus_per_node = 8;
  c.job.events = static_cast<uint64_t>(c.job.ranks) * (24000 + random.next() % 24000);
  c.job.seed = seed * 1000 + static_cast<uint64_t>(k);
  c.job.faults = sim::Faults::none();
  c.job.faults.jitter = random.next() % 3 == 0 ? 0.05 : 0;
  c.size = kSizes[random.next() % 5];
  const int steps = sim::Job(c.job).steps();
  c.job.faults.from_step = random.next() % 2 ? steps / 2 : 0;
  const auto rank = static_cast<int>(random.next() % static_cast<uint64_t>(c.job.ranks));
  switch (k / 7 % 5) {
    case 0:
    case 1:
      c.kind = "slow rank";
      c.job.faults.slow_rank = rank;
      c.job.faults.slowdown = 1 + c.size;
      break;
    case 2: {
      c.kind = "late data";
      const sim::Job job(c.job);
      double step_ns = 0;
      for (const sim::Op& op : job.ops())
        if (op.kind == sim::OpKind::kernel) step_ns += static_cast<double>(job.kernels()[op.kernel].base_ns) + 800;
      c.job.faults.late_rank = rank;
      c.job.faults.late_ms = c.size * step_ns / 1e6;
      break;
    }
    case 3: {
      c.kind = "slow link";
      // A single communicator has nobody to be compared with: at least two nodes.
      while (c.job.ranks / c.job.gpus_per_node < 2) c.job.gpus_per_node /= 2;
      const int nodes = sim::Job(c.job).nodes();
      c.job.faults.slow_node = static_cast<int>(random.next() % static_cast<uint64_t>(nodes));
      c.job.faults.link_slowdown = 1 + c.size;
      break;
    }
    default:
      c.kind = "clean";
  }
  return c;
}

struct Score {
  int runs = 0, right = 0, wrong = 0, silent = 0;
  double rank_hours = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const int runs =
      std::atoi(bench::option(argc, argv, "--runs", bench::flag(argc, argv, "--smoke") ? "7" : "420").c_str());
  const auto seed = std::strtoull(bench::option(argc, argv, "--seed", "1").c_str(), nullptr, 10);
  const std::string json = bench::option(argc, argv, "--json", "");
  const bool verbose = bench::flag(argc, argv, "--verbose");
  const std::string path =
      (std::filesystem::temp_directory_path() / ("fault_bench." + std::to_string(::getpid()) + ".sbt")).string();
  std::map<std::string, Score> by_kind;
  std::map<std::string, Score> by_size;
  int confident_wrong = 0;
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
    const int truth_rank = c.kind == "slow rank"   ? c.job.faults.slow_rank
                           : c.kind == "late data" ? c.job.faults.late_rank
                                                   : -1;
    const std::string truth_node = c.kind == "slow link" ? "node" + std::to_string(c.job.faults.slow_node) : "";
    const bool rank = v.kind == analysis::VerdictKind::rank, link = v.kind == analysis::VerdictKind::link;
    const bool named = rank || link;
    bool right = !named;
    if (truth_rank >= 0) right = rank && v.rank == truth_rank;
    if (!truth_node.empty()) right = link && v.node == truth_node;
    char size[40] = "";
    std::snprintf(size, sizeof size, " %.0f %%", 100 * c.size);
    for (Score* s : {&by_kind[c.kind], &by_size[c.kind == "clean" ? c.kind : c.kind + size]}) {
      ++s->runs;
      s->right += right;
      s->wrong += !right && named;
      s->silent += !right && !named;
      s->rank_hours += result->duration_us / 3.6e9 * c.job.ranks;
    }
    confident_wrong += !right && named && v.confidence >= 0.7;
    if (verbose || !right)
      std::printf(
          "%s %3d  %-9s %+.2f  %3d ranks, %d a node, from %d of %d, jitter %.2f: %s (truth rank %d %s) sure %.2f\n",
          right ? "ok   " : "WRONG", k, c.kind.c_str(), c.size, c.job.ranks, c.job.gpus_per_node,
          c.job.faults.from_step, sim::Job(c.job).steps(), c.job.faults.jitter, v.text.c_str(), truth_rank,
          truth_node.c_str(), v.confidence);
    std::fflush(stdout);
  }
  std::filesystem::remove(path);
  std::string text;
  JsonWriter w(text);
  w.beginObject()
      .field("runs", runs)
      .field("seed", static_cast<uint64_t>(seed))
      .field("wrong_and_sure", confident_wrong);
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
  if (!json.empty()) std::ofstream(json) << text << "\n";
  return 0;
}
