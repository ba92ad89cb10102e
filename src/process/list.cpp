#include "process/list.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "capture/ring/settings.hpp"
#include "hardware/process.hpp"
#include "hardware/sysfs.hpp"
#include "process/vitals.hpp"

namespace tracesmith::process {
namespace {

using model::ProcessEntry;

constexpr int kLookMs = 200;  // between two looks at the processor time

struct Seen {
  bool python = false;
  const capture::ProcessNow* probe = nullptr;
  std::set<uint32_t> gpus;
  std::optional<double> gpu_bytes;
  std::optional<Vitals> before;
};

/// GPUs and device memory of processes, as their drivers say.
void addGpus(const hardware::Latest::State& state, std::map<int64_t, Seen>& all) {
  for (const hardware::Latest::Value& v : state.values) {
    int64_t pid = 0;
    if (v.metric != &hardware::metricInfo(hardware::Metric::gpu_process_memory_bytes) || !parseInt(v.part, pid))
      continue;
    Seen& p = all[pid];
    if (v.device >= 0) p.gpus.insert(static_cast<uint32_t>(v.device));
    if (!std::isnan(v.value)) p.gpu_bytes = p.gpu_bytes.value_or(0) + v.value;
  }
}

void addProbe(const capture::ProcessNow& probe, ProcessEntry& entry) {
  entry.probe = ring::modeName(probe.mode);
  if (!probe.recording) entry.probe += ", paused";
  if (probe.simulated) entry.probe += ", simulated";
  entry.simulated = probe.simulated;
  entry.role = probe.role;
  if (probe.rank >= 0) entry.rank = probe.rank;
  if (!probe.step) return;
  entry.step = probe.step->number;
  entry.step_age_s = static_cast<double>(probe.step->age_ns) / 1e9;
}

ProcessEntry entryOf(const std::string& root, int64_t pid, const Seen& seen, const std::optional<Vitals>& now,
                     double seconds) {
  ProcessEntry entry;
  const hardware::ProcessInfo info = hardware::processInfo(root, pid);
  const Placement place =
      placementOf(hardware::readText(root + "/proc/" + std::to_string(pid) + "/cgroup").value_or(""));
  entry.pid = pid;
  entry.user = info.user;
  if (info.rank != hardware::kUnknown) entry.rank = info.rank;
  entry.gpus.assign(seen.gpus.begin(), seen.gpus.end());
  entry.gpu_memory_bytes = seen.gpu_bytes;
  if (seen.before && now && now->cpu_ticks >= seen.before->cpu_ticks)
    entry.cpu_percent = 100 * static_cast<double>(now->cpu_ticks - seen.before->cpu_ticks) / clockTicks() / seconds;
  if (now && now->state) entry.state = now->state;
  if (now) entry.threads = now->threads;
  entry.python = seen.python;
  entry.job = info.job.empty() ? place.slurm_job : info.job;
  entry.slurm_job = place.slurm_job;
  entry.job_step = info.job_step;
  entry.pod = place.pod;
  entry.pod_name = info.pod;
  entry.pod_namespace = info.pod_namespace;
  entry.container = place.container;
  entry.command = info.command;
  if (seen.probe) addProbe(*seen.probe, entry);
  return entry;
}

}  // namespace

std::vector<ProcessEntry> list(const std::string& root, const std::vector<capture::ProcessNow>& recorded,
                               const std::function<hardware::Latest::State()>& gpus) {
  std::map<int64_t, Seen> all;
  std::vector<ProcessEntry> out;
  for (const int64_t pid : processIds(root))
    if (pid != ::getpid() && looksLikePython(root, pid)) all[pid].python = true;
  for (const capture::ProcessNow& p : recorded) {
    if (!p.simulated) {
      all[p.pid].probe = &p;
      continue;
    }
    ProcessEntry& entry = out.emplace_back();
    entry.pid = p.pid;
    entry.command = p.command;
    addProbe(p, entry);
  }
  const int64_t begin = rawClock();
  for (auto& [pid, p] : all) p.before = vitals(root, pid);
  addGpus(gpus(), all);
  const int64_t rest_ms = kLookMs - (rawClock() - begin) / 1'000'000;
  if (!all.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(std::max<int64_t>(0, rest_ms)));
  for (const auto& [pid, p] : all) {
    const std::optional<Vitals> now = vitals(root, pid);
    // It has ended; those with a GPU or a probe may only be out of sight, in another container.
    if (!now && p.gpus.empty() && !p.probe) continue;
    out.push_back(entryOf(root, pid, p, now, static_cast<double>(rawClock() - begin) / 1e9));
  }
  std::stable_sort(out.begin(), out.end(), [](const ProcessEntry& a, const ProcessEntry& b) {
    const auto order = [](const ProcessEntry& p) {
      return std::tuple(p.simulated, p.job, !p.rank, p.rank.value_or(0), p.pid);
    };
    return order(a) < order(b);
  });
  return out;
}

}  // namespace tracesmith::process
