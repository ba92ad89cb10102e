// What choosing devices costs in a cluster of 10,000: registering one, taking its report, choosing, splitting work.
// The baseline of a choice is a copy of the same values: what reading them costs without any decision.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/text.hpp"
#include "measure.hpp"
#include "tracesmith/schedule/gpu_clustering_manager.hpp"

namespace {

using namespace tracesmith;
using namespace tracesmith::bench;
using namespace tracesmith::schedule;

constexpr double kMicro = 1e6;

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Times of one operation, in µs.
struct Times {
  std::string name;
  double bar_us = 0;  // 0: none
  std::vector<double> us{};

  double at(double share) {
    std::sort(us.begin(), us.end());
    return us[std::min(us.size() - 1, static_cast<size_t>(share * static_cast<double>(us.size())))];
  }
};

GPUDevice deviceOf(size_t i, size_t per_node) {
  static const char* const kVendors[] = {"nvidia", "amd", "intel", "apple", "qualcomm"};
  GPUDevice d;
  d.node = "node-" + std::to_string(i / per_node);
  d.index = static_cast<uint32_t>(i % per_node);
  d.device_id = d.node + ":" + std::to_string(i % per_node);
  d.name = "GPU";
  d.vendor = kVendors[i / per_node % std::size(kVendors)];
  d.memory_bytes = 80'000'000'000;
  if (d.vendor == "nvidia") d.compute_capability = "9.0";
  return d;
}

GPUMetrics metricsOf(const GPUDevice& d, size_t i, int round) {
  GPUMetrics m;
  m.device_id = d.device_id;
  m.timestamp = 1'700'000'000 + round;
  m.memory_total_bytes = 80'000'000'000;
  m.memory_used_bytes = (i * 7919 + static_cast<size_t>(round)) % 79 * 1'000'000'000;
  m.compute_utilization_percent = static_cast<double>(i * 104729 % 101);
  m.power_watts = 400;
  m.temperature_celsius = static_cast<double>(30 + i % 60);
  m.clock_rate_mhz = 1980;
  return m;
}

class Cluster {
 public:
  explicit Cluster(size_t devices) {
    for (size_t i = 0; i < devices; ++i) devices_.push_back(deviceOf(i, 8));
  }

  void fill(Times& registering, Times& recording, int rounds) {
    for (const GPUDevice& d : devices_)
      registering.us.push_back(kMicro * seconds([&] { ok_ &= manager_.registerDevice(d).ok(); }));
    for (int round = 0; round < rounds; ++round)
      for (size_t i = 0; i < devices_.size(); ++i) {
        const GPUMetrics m = metricsOf(devices_[i], i, round);
        recording.us.push_back(kMicro * seconds([&] { ok_ &= manager_.recordMetrics(m).ok(); }));
      }
  }
  void choose(Times& times, const SelectionRequest& request, int rounds) {
    for (int i = 0; i < rounds; ++i)
      times.us.push_back(kMicro * seconds([&] {
                           const Result<Selection> s = manager_.select(request);
                           ok_ &= s.ok() && s->suitable + s->rejected.size() == devices_.size();
                         }));
  }
  void split(Times& uniform, Times& aggregating, int rounds) {
    WorkRequest work;
    work.tasks = 1'000'000;
    for (int i = 0; i < rounds; ++i) {
      uniform.us.push_back(kMicro * seconds([&] { ok_ &= manager_.distributeWorkload(work).ok(); }));
      aggregating.us.push_back(kMicro * seconds([&] { ok_ &= manager_.getAggregatedMetrics().reporting_count > 0; }));
    }
  }
  /// What the numbers of a choice cost to read, without one: six values of each device copied.
  void copy(Times& times, int rounds) {
    std::vector<double> from(devices_.size() * 6, 1.0), to(from.size());
    for (int i = 0; i < rounds; ++i)
      times.us.push_back(kMicro * seconds([&] {
                           from[0] = i;
                           std::copy(from.begin(), from.end(), to.begin());
                           ok_ &= to[0] == i;
                         }));
  }
  bool ok() const { return ok_; }

 private:
  std::vector<GPUDevice> devices_;
  GPUClusteringManager manager_;
  bool ok_ = true;
};

}  // namespace

int main(int argc, char** argv) {
  usage(argc, argv, "schedule_bench [--devices 10000] [--rounds 200] [--json OUT] [--smoke]");
  const bool smoke = flag(argc, argv, "--smoke");
  const auto devices = static_cast<size_t>(std::stoul(option(argc, argv, "--devices", smoke ? "500" : "10000")));
  const int rounds = std::stoi(option(argc, argv, "--rounds", smoke ? "5" : "200"));
  Cluster cluster(devices);
  Times all[] = {{"register a device", 10},
                 {"take a report", 10},
                 {"copy six values of each (baseline)"},
                 {"choose the best", 1000},
                 {"choose 64 with constraints", 1000},
                 {"choose when all are rejected", 1000},
                 {"choose near a device", 1000},
                 {"split 1,000,000 tasks"},
                 {"aggregate"}};
  cluster.fill(all[0], all[1], smoke ? 2 : 5);
  cluster.copy(all[2], rounds);
  SelectionRequest best, constrained, none, near;
  constrained.count = 64;
  constrained.min_memory_bytes = 8'000'000'000;
  constrained.precision = "bf16";
  constrained.max_temperature_celsius = 80;
  none.min_memory_bytes = 1'000'000'000'000;
  near.near = "node-3:1";
  near.count = 8;
  cluster.choose(all[3], best, rounds);
  cluster.choose(all[4], constrained, rounds);
  cluster.choose(all[5], none, rounds);
  cluster.choose(all[6], near, rounds);
  cluster.split(all[7], all[8], rounds);

  bool met = true;
  std::string json;
  JsonWriter w(json);
  w.beginObject().field("devices", static_cast<uint64_t>(devices));
  for (Times& t : all) {
    const double median = t.at(.5), p99 = t.at(.99);
    std::printf("  %-36s median %9.2f us, 99 %% within %9.2f us%s\n", t.name.c_str(), median, p99,
                t.bar_us == 0     ? ""
                : p99 <= t.bar_us ? "  met"
                                  : "  NOT met");
    met &= t.bar_us == 0 || p99 <= t.bar_us;
    w.key(t.name).beginObject().field("median_us", median).field("p99_us", p99).endObject();
  }
  w.endObject();
  std::printf("%s devices: a choice takes %.1f times the copy; bars 10 µs to register and record, 1 ms to choose: %s\n",
              humanCount(devices).c_str(), all[3].at(.5) / all[2].at(.5), met ? "met" : "NOT met");
  if (std::string out = option(argc, argv, "--json", ""); !out.empty())
    if (Result<File> f = File::create(out); !f || !f->write(json + "\n")) return 1;
  return cluster.ok() ? 0 : 1;
}
