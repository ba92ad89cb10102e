// tracesmith ps: the processes of this machine that matter to a job: on GPUs, under the probe, Python.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "capture/collect/training_now.hpp"
#include "cli/commands.hpp"
#include "cli/places.hpp"
#include "cli/terminal.hpp"
#include "hardware/latest.hpp"
#include "hardware/process.hpp"
#include "hardware/sysfs.hpp"
#include "process/vitals.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  hardware::Places places;
  bool json = false;
};

struct Listed {
  hardware::ProcessInfo info;
  bool python = false;
  std::optional<capture::ProcessNow> probe;
  std::set<int32_t> gpus;
  std::optional<double> gpu_bytes;
  std::optional<process::Vitals> before, now;
  std::optional<double> cpu_percent;
  process::Placement place;
};

constexpr int kLookMs = 200;  // between two looks at the processor time

/// GPUs and device memory of processes, as their drivers say.
void addGpus(const hardware::Latest::State& state, std::map<int64_t, Listed>& all) {
  for (const hardware::Latest::Value& v : state.values) {
    int64_t pid = 0;
    if (v.metric != &hardware::metricInfo(hardware::Metric::gpu_process_memory_bytes) || !parseInt(v.part, pid))
      continue;
    Listed& p = all[pid];
    p.gpus.insert(v.device);
    if (!std::isnan(v.value)) p.gpu_bytes = p.gpu_bytes.value_or(0) + v.value;
  }
}

std::vector<Listed> look(const Options& o) {
  const std::string& root = o.places.root;
  hardware::SamplerOptions sampling;
  sampling.places = o.places;
  sampling.host = false;
  sampling.fast_ms = sampling.slow_ms = kLookMs / 4;
  hardware::Latest latest;
  hardware::Sampler sampler(sampling, latest);
  sampler.start();

  std::map<int64_t, Listed> all;
  for (const int64_t pid : process::processIds(root))
    if (pid != ::getpid() && process::looksLikePython(root, pid)) all[pid].python = true;
  std::vector<Listed> simulated;
  capture::ProcessesNow recorded;
  for (const capture::ProcessNow& p : recorded.read()) {
    Listed& listed = p.simulated ? simulated.emplace_back() : all[p.pid];
    listed.probe = p;
    if (p.simulated) {
      listed.info.pid = p.pid;
      listed.info.command = p.command;
      if (p.rank >= 0) listed.info.rank = p.rank;
    }
  }
  const int64_t begin = rawClock();
  for (auto& [pid, p] : all) p.before = process::vitals(root, pid);
  (void)sampler.waitForInventory(sampling.hang_ms);
  const int64_t rest_ms = kLookMs - (rawClock() - begin) / 1'000'000;
  std::this_thread::sleep_for(std::chrono::milliseconds(std::max<int64_t>(sampling.slow_ms * 2, rest_ms)));
  addGpus(latest.state(), all);

  std::vector<Listed> out;
  for (auto& [pid, p] : all) {
    p.now = process::vitals(root, pid);
    if (!p.now && p.gpus.empty() && !p.probe)
      continue;  // it has ended; others may be out of sight, in another container
    const double seconds = static_cast<double>(rawClock() - begin) / 1e9;
    if (p.before && p.now && p.now->cpu_ticks >= p.before->cpu_ticks)
      p.cpu_percent =
          100 * static_cast<double>(p.now->cpu_ticks - p.before->cpu_ticks) / process::clockTicks() / seconds;
    p.info = hardware::processInfo(root, pid);
    if (p.probe && p.probe->rank >= 0) p.info.rank = p.probe->rank;
    p.place = process::placementOf(hardware::readText(root + "/proc/" + std::to_string(pid) + "/cgroup").value_or(""));
    out.push_back(std::move(p));
  }
  for (Listed& p : simulated) out.push_back(std::move(p));
  std::stable_sort(out.begin(), out.end(), [](const Listed& a, const Listed& b) {
    const auto order = [](const Listed& p) {
      return std::tuple(p.info.job, p.info.rank == hardware::kUnknown, p.info.rank, p.info.pid);
    };
    return order(a) < order(b);
  });
  return out;
}

/// What the probe in it does; empty: there is none.
std::string probeText(const Listed& p) {
  if (!p.probe) return "";
  constexpr const char* kModes[] = {"light", "default", "full", "watch"};
  const std::string mode = p.probe->mode < std::size(kModes) ? kModes[p.probe->mode] : "other";
  return std::string(p.probe->recording ? mode : mode + ", paused") + (p.probe->simulated ? ", simulated" : "");
}

std::string placeText(const Listed& p) {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() || text.empty() ? "" : ", ") + text; };
  if (!p.info.job.empty()) add(printable(p.info.job));
  if (!p.place.slurm_job.empty() && p.place.slurm_job != p.info.job) add("Slurm " + p.place.slurm_job);
  if (!p.place.pod.empty()) add("pod " + printable(p.place.pod));
  if (!p.place.container.empty()) add("container " + p.place.container);
  return out;
}

std::string orDash(const std::string& s) { return s.empty() ? "-" : s; }

void print(const std::vector<Listed>& all) {
  if (all.empty()) {
    std::printf("no processes on GPUs, under the probe or of Python\n");
    return;
  }
  std::vector<std::vector<std::string>> rows = {
      {"pid", "user", "rank", "step", "for", "GPU", "GPU memory", "CPU %", "state", "probe", "job", "command"}};
  for (const Listed& p : all) {
    std::string gpus;
    for (const int32_t g : p.gpus) gpus += (gpus.empty() ? "" : ",") + std::to_string(g);
    const bool step = p.probe && p.probe->step;
    char cpu[32] = "-";
    if (p.cpu_percent) std::snprintf(cpu, sizeof cpu, "%.0f", *p.cpu_percent);
    rows.push_back({std::to_string(p.info.pid), orDash(printable(p.info.user)),
                    p.info.rank == hardware::kUnknown ? "-" : std::to_string(p.info.rank),
                    step ? std::to_string(p.probe->step->number) : "-",
                    step ? humanNs(static_cast<double>(p.probe->step->age_ns)) : "-", orDash(gpus),
                    p.gpu_bytes ? humanBytes(static_cast<uint64_t>(std::max(0.0, *p.gpu_bytes))) : "-", cpu,
                    p.now ? std::string(1, p.now->state) : "-", orDash(probeText(p)), orDash(placeText(p)),
                    shorten(printable(p.info.command), 60)});
  }
  std::printf("%s", alignTable(rows).c_str());
}

std::string json(const std::vector<Listed>& all) {
  std::string out;
  JsonWriter w(out);
  const auto text = [&](const char* key, const std::string& value) {
    w.key(key);
    value.empty() ? w.null() : w.value(value);
  };
  w.beginArray();
  for (const Listed& p : all) {
    const auto maybe = [&](const char* key, bool known, auto value) {
      w.key(key);
      known ? w.value(value) : w.null();
    };
    const bool step = p.probe && p.probe->step;
    w.beginObject().field("pid", p.info.pid);
    text("user", p.info.user);
    maybe("rank", p.info.rank != hardware::kUnknown, p.info.rank);
    text("role", p.probe ? p.probe->role : "");
    maybe("step", step, step ? p.probe->step->number : 0);
    maybe("step_age_s", step, step ? static_cast<double>(p.probe->step->age_ns) / 1e9 : 0.0);
    w.key("gpus").beginArray();
    for (const int32_t g : p.gpus) w.value(static_cast<int64_t>(g));
    w.endArray();
    maybe("gpu_memory_bytes", p.gpu_bytes.has_value(), p.gpu_bytes.value_or(0));
    maybe("cpu_percent", p.cpu_percent.has_value(), p.cpu_percent.value_or(0));
    text("state", p.now && p.now->state ? std::string(1, p.now->state) : "");
    maybe("threads", p.now.has_value(), p.now ? p.now->threads : 0);
    w.field("python", p.python);
    text("probe", probeText(p));
    w.field("simulated", p.probe && p.probe->simulated);
    text("job", p.info.job.empty() ? p.place.slurm_job : p.info.job);
    text("pod", p.place.pod);
    text("container", p.place.container);
    text("command", p.info.command);
    w.endObject();
  }
  w.endArray();
  return out;
}

void add(Command& app, const char* name, const char* summary, const char* example) {
  auto o = std::make_shared<Options>();
  Command command = app.command(name, summary);
  addPlaces(command, o->places);
  command.flag("--json", o->json, "Print JSON; null means unknown");
  command.footer(example);
  command.run([o] {
    const std::vector<Listed> all = look(*o);
    o->json ? static_cast<void>(std::printf("%s\n", json(all).c_str())) : print(all);
    return 0;
  });
}

}  // namespace

void addPs(Command& app) {
  add(app, "ps", "List this machine's processes on GPUs, under the probe and of Python",
      "State: R runs, S sleeps, D cannot be interrupted, T is stopped. \"for\": how long its step has lasted. Steps "
      "and\n"
      "ranks of other users' processes, and their GPU memory in containers, may need root.\n\n"
      "Example:  tracesmith ps --json | jq '.[] | select(.rank != null)'");
  add(app, "list", "The same as ps", "Example:  tracesmith list");
}

}  // namespace tracesmith::cli
