// What balancing gains on simulated clusters, in one run: throughput of uniform batches, of batches by the given
// speeds, and of the balancer, against the best of all divisions (brute force). Bar: where nothing changes, the
// balancer has 97 % of the best from step 20 on. Then what the parts cost: a plan for 1,000 ranks, a rank's look into
// the page.
// --smoke: fewer steps.
#include <cstdio>

#include "../tests/schedule/simulated_cluster.hpp"
#include "base/clock.hpp"
#include "measure.hpp"

namespace tracesmith::bench {
namespace {

using namespace test;

struct Scene {
  const char* name;
  std::vector<Device> devices;
  Slowdown slowdown;
};

/// Steps per second of the best division, in each step the best for it.
double bestSpeed(const SimulatedCluster& cluster, int64_t from, int64_t steps) {
  double sum = 0;
  for (int64_t step = from; step < steps; ++step) sum += cluster.bestStep(step);
  return static_cast<double>(steps - from) / sum;
}

/// False if a bar is missed.
bool show(const Scene& scene, int64_t steps) {
  constexpr int64_t kTotal = 192, kFrom = 20;
  SimulatedCluster cluster(scene.devices, kTotal);
  if (scene.slowdown) cluster.slowdown = scene.slowdown;
  std::vector<double> speeds;
  for (const Device& d : scene.devices) {
    speeds.push_back(d.rate);
    cluster.config.most_batch.push_back(d.memory);
  }
  const Plan uniform = uniformPlan(kTotal, static_cast<int64_t>(scene.devices.size()));
  const Result<std::vector<int64_t>> by_speed =
      proportionalBatches(kTotal, speeds, std::vector<BatchLimits>(scene.devices.size()));
  const SimulatedRun run = cluster.run(steps);
  if (!by_speed || static_cast<int64_t>(run.seconds.size()) != steps) return false;
  auto speedOf = [&](const std::vector<int64_t>& batches) {
    double sum = 0;
    for (int64_t step = kFrom; step < steps; ++step) sum += cluster.stepOf(batches, step);
    return static_cast<double>(steps - kFrom) / sum;
  };
  const double best = bestSpeed(cluster, kFrom, steps), balanced = run.speed(kFrom, static_cast<size_t>(steps));
  std::printf("%-34s %11.0f %9.1f %9.1f %9.1f %8d\n", scene.name, best * kTotal,
              100 * speedOf(uniform.batches()) / best, 100 * speedOf(*by_speed) / best, 100 * balanced / best,
              run.changes);
  return scene.slowdown || balanced >= 0.97 * best;
}

double nanoseconds(int count, const std::function<void()>& work) {
  const int64_t begin = rawClock();
  for (int i = 0; i < count; ++i) work();
  return static_cast<double>(rawClock() - begin) / count;
}

void costs() {
  constexpr size_t kRanks = 1000;
  std::vector<RankCost> ranks;
  for (size_t r = 0; r < kRanks; ++r) ranks.push_back({0.01, 0.001 * static_cast<double>(1 + r % 7)});
  const std::vector<BatchLimits> limits(kRanks);
  std::printf("\nbatches for 1,000 ranks and 65,536 samples   %8.2f ms\n",
              nanoseconds(5, [&] { (void)fastestBatches(65536, ranks, limits); }) / 1e6);
  const Result<TemporaryFolder> folder = TemporaryFolder::create();
  if (!folder) return;
  const std::string path = folder->path() + "/plan";
  auto page = PlanPage::create(path, {.ranks = 64, .total = 4096, .ahead = 0});
  auto follower = Follower::open(path, 0);
  if (!page || !follower) return;
  int64_t step = 0;
  std::printf("a rank's look into the page of 64 ranks      %8.2f us a step\n",
              nanoseconds(5000, [&] {
                (*follower)->begin(step);
                (*follower)->report({step++, 64, 0.1, 0.1});
              }) / 1e3);
}

int run(int argc, char** argv) {
  usage(argc, argv, "balance_bench [--smoke]");
  const int64_t steps = flag(argc, argv, "--smoke") ? 60 : 600;
  const std::vector<Scene> scenes = {
      {"A100, V100, T4, CPU", {kA100, kV100, kT4, kCpu}, nullptr},
      {"A100, A100, T4", {kA100, kA100, kT4}, nullptr},
      {"V100, T4", {kV100, kT4}, nullptr},
      {"4 x A100", {kA100, kA100, kA100, kA100}, nullptr},
      {"A100 throttles 2.5 x in the middle",
       {kA100, kV100, kT4},
       [steps](int64_t rank, int64_t step) {
         return rank == 0 && step > steps / 3 && step < 2 * steps / 3 ? 2.5 : 1.0;
       }},
      {"noisy neighbour of a V100",
       {kV100, kV100, kT4},
       [](int64_t rank, int64_t step) { return rank == 1 && step / 12 % 2 ? 1.6 : 1.0; }},
  };
  std::printf("simulated data, %lld steps, from step 20 on\n%-34s %11s %9s %9s %9s %8s\n",
              static_cast<long long>(steps), "", "best, /s", "uniform %", "static %", "ours %", "changes");
  bool kept = true;
  for (const Scene& scene : scenes) kept = show(scene, steps) && kept;
  costs();
  if (!kept) std::fprintf(stderr, "less than 97 %% of the best\n");
  return kept ? 0 : 1;
}

}  // namespace
}  // namespace tracesmith::bench

int main(int argc, char** argv) { return tracesmith::bench::run(argc, argv); }
