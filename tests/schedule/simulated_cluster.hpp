// Devices that do not exist, in a job that follows plans: what the balancer makes of it, against the best division.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/temporary_folder.hpp"
#include "schedule/coordinator.hpp"
#include "schedule/follower.hpp"

namespace tracesmith::test {

using namespace tracesmith::schedule;

/// A device: a step of n samples takes fixed + n / rate, and no more than `memory` samples fit.
struct Device {
  const char* name;
  double fixed_s, rate;  // the rate in samples per second
  int64_t memory;
};
/// Samples that fit beside 1.5 GB of weights, gradients, optimizer and libraries, 0.1 GB each.
constexpr int64_t samplesIn(double bytes) { return static_cast<int64_t>((bytes - 1.5e9) / 0.1e9); }
// About what a ResNet-50 trains at on these.
constexpr Device kA100{"A100", 0.012, 1200, samplesIn(80e9)};
constexpr Device kV100{"V100", 0.015, 600, samplesIn(16e9)};
constexpr Device kT4{"T4", 0.020, 180, samplesIn(16e9)};
constexpr Device kCpu{"CPU", 0.050, 20, samplesIn(128e9)};
// Servers of three generations.
constexpr Device kOldCpu{"CPU of 2014", 0.090, 8, samplesIn(64e9)};
constexpr Device kNewCpu{"CPU of 2023", 0.040, 45, samplesIn(256e9)};

/// How much slower a rank is in a step: 1 is as its device says.
using Slowdown = std::function<double(int64_t rank, int64_t step)>;

struct SimulatedRun {
  std::vector<std::vector<int64_t>> batches;  // of each step
  std::vector<double> seconds;                // of each step
  std::vector<std::string> said;              // by the coordinator
  std::vector<Plan> plans;                    // in force, with the step in which they began
  int changes = 0;
  int64_t out_of_memory = 0;

  /// Steps per second from step `from` on, up to `until`.
  double speed(size_t from, size_t until) const {
    double sum = 0;
    for (size_t i = from; i < until; ++i) sum += seconds[i];
    return static_cast<double>(until - from) / sum;
  }
};

class SimulatedCluster {
 public:
  SimulatedCluster(std::vector<Device> devices, int64_t total) : devices_(std::move(devices)), total_(total) {}

  double noise = 0.02;                                       // standard deviation of a step's time
  Slowdown slowdown = [](int64_t, int64_t) { return 1.0; };  // what happens to a rank
  Slowdown lie = [](int64_t, int64_t) { return 1.0; };       // what it says is so many times its true time
  double exchange_s = 0.005;                                 // of gradients, when the last rank has come
  BalancerConfig config;

  double trueTime(int64_t rank, int64_t step, int64_t batch) const {
    const Device& d = devices_[static_cast<size_t>(rank)];
    return (d.fixed_s + static_cast<double>(batch) / d.rate) * slowdown(rank, step);
  }
  /// With what it costs if the batch does not fit: half of a step until memory is full, then parts that fit.
  double realTime(int64_t rank, int64_t step, int64_t batch) const {
    const Device& d = devices_[static_cast<size_t>(rank)];
    const double time = trueTime(rank, step, batch);
    if (batch <= d.memory) return time;
    return 1.5 * time + static_cast<double>((batch - 1) / d.memory) * d.fixed_s * slowdown(rank, step);
  }

  /// Of a step, without noise.
  double stepOf(const std::vector<int64_t>& batches, int64_t step) const {
    double longest = 0;
    for (size_t r = 0; r < batches.size(); ++r)
      longest = std::max(longest, realTime(static_cast<int64_t>(r), step, batches[r]));
    return longest + exchange_s;
  }

  /// The best of all divisions.
  double bestStep(int64_t step) const {
    std::vector<double> now;
    for (size_t r = 0; r < devices_.size(); ++r) now.push_back(slowdown(static_cast<int64_t>(r), step));
    if (const auto known = best_.find(now); known != best_.end()) return known->second;
    double best = std::numeric_limits<double>::infinity();
    std::function<void(size_t, int64_t, double)> divide = [&](size_t r, int64_t rest, double longest) {
      const int64_t others = static_cast<int64_t>(devices_.size() - r - 1);
      for (int64_t n = others == 0 ? rest : 1; n <= rest - others && n <= devices_[r].memory; ++n) {
        const double slowest = std::max(longest, trueTime(static_cast<int64_t>(r), step, n));
        if (slowest >= best) break;
        if (others == 0)
          best = slowest;
        else
          divide(r + 1, rest - n, slowest);
      }
    };
    divide(0, total_, 0);
    return best_[now] = best + exchange_s;
  }

  /// Trains `steps` steps, through a real page. Empty if something failed; `said` has the reason.
  SimulatedRun run(int64_t steps) {
    SimulatedRun out;
    auto fail = [&](const Status& status) {
      out.said.push_back(status.message());
      return out;
    };
    const auto ranks = static_cast<int64_t>(devices_.size());
    const Result<TemporaryFolder> folder = TemporaryFolder::create();
    if (!folder) return fail(folder.status());
    const std::string path = folder->path() + "/plan";
    auto page = PlanPage::create(path, {.ranks = ranks, .total = total_, .ahead = 0});
    if (!page) return fail(page.status());
    auto coordinator = Coordinator::start(path, config);
    if (!coordinator) return fail(coordinator.status());
    std::vector<std::unique_ptr<Follower>> followers;
    for (int64_t r = 0; r < ranks; ++r) {
      auto follower = Follower::open(path, r);
      if (!follower) return fail(follower.status());
      followers.push_back(std::move(*follower));
    }
    for (int64_t step = 0; step < steps; ++step) {
      auto said = (*coordinator)->turn();
      if (!said) return fail(said.status());
      out.said.insert(out.said.end(), said->begin(), said->end());
      train(step, followers, out);
    }
    return out;
  }

 private:
  void train(int64_t step, std::vector<std::unique_ptr<Follower>>& followers, SimulatedRun& out) {
    std::normal_distribution<double> around(1, noise);
    std::vector<int64_t> batches;
    std::vector<double> busy;
    double longest = 0;
    for (auto& follower : followers) {
      const Plan& plan = follower->begin(step);
      if (out.plans.empty() || out.plans.back().version != plan.version) {
        out.plans.push_back(plan);
        out.plans.back().from_step = step;
      }
      const int64_t r = follower->rank(), batch = plan.ranks[static_cast<size_t>(r)].batch;
      if (batch > devices_[static_cast<size_t>(r)].memory) {
        follower->outOfMemory(batch);
        ++out.out_of_memory;
      }
      busy.push_back(realTime(r, step, batch) * std::max(0.5, around(random_)));
      batches.push_back(batch);
      longest = std::max(longest, busy.back());
    }
    for (auto& follower : followers) {
      const auto r = static_cast<size_t>(follower->rank());
      follower->report({step, batches[r], busy[r] * lie(follower->rank(), step), longest + exchange_s});
    }
    out.changes += !out.batches.empty() && batches != out.batches.back();
    out.batches.push_back(batches);
    out.seconds.push_back(stepOf(batches, step));
  }

  const std::vector<Device> devices_;
  const int64_t total_;
  std::mt19937 random_{42};
  mutable std::map<std::vector<double>, double> best_;  // by what happens to the ranks
};

}  // namespace tracesmith::test
