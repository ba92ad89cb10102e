// What live watching costs: the reporter in an agent, the watcher in the master. CPU time of the thread that does it.
#include <time.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "analysis/live/watcher.hpp"
#include "base/text.hpp"
#include "capture/sim/live.hpp"
#include "cluster/agent/live_rings.hpp"
#include "cluster/wire/live_convert.hpp"
#include "live_model.hpp"
#include "measure.hpp"

using namespace tracesmith;
using namespace tracesmith::bench;

namespace {

double cpuSeconds() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

struct AgentCost {
  double seconds = 0, cpu = 0, records = 0;
  uint64_t reports = 0, bytes = 0;
};

/// Eight ranks with rings that a simulated job fills in real time, a report each second, as the agent makes them.
AgentCost agentCost(int seconds, int gpus) {
  const auto folder = std::filesystem::temp_directory_path() / ("live_bench." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  sim::LiveConfig config;
  config.job.ranks = config.job.gpus_per_node = gpus;
  config.folder = folder;
  config.host = "node0";
  config.ring_records = 1u << 17;
  AgentCost cost;
  auto job = sim::LiveJob::create(config);
  if (!job) return std::fprintf(stderr, "%s\n", job.status().message().c_str()), cost;
  std::atomic<bool> stop{false};
  std::thread runs([&] { (*job)->run(stop); });
  cluster::RingWatch watch(folder, "node0");
  for (int i = -2; i < seconds; ++i) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const double before = cpuSeconds();
    analysis::live::NodeReport report;
    report.processes = watch.report();
    cluster::LiveReport message;
    cluster::toMessage(report, message);
    if (i < 0) continue;  // the first ones read what was there before
    cost.cpu += cpuSeconds() - before;
    cost.bytes += message.ByteSizeLong();
    for (const auto& p : report.processes) cost.records += static_cast<double>(p.activity);
    ++cost.reports;
  }
  cost.seconds = seconds;
  stop = true;
  runs.join();
  job->reset();
  std::filesystem::remove_all(folder);
  return cost;
}

struct MasterCost {
  double seconds = 0, take = 0, look = 0, parse = 0;
  uint64_t reports = 0, looks = 0;
};

/// Reports of a whole job, read as the master reads them; the watcher looks twice a second.
MasterCost masterCost(int ranks, int seconds, bool hangs) {
  ModelConfig c;
  c.pp = 4;
  c.tp = 2;
  c.dp = ranks / 8;
  c.seed = 3;
  if (hangs) c.faults.push_back({ModelFault::hang, 5, 20, 7, 0});
  LiveModel model(c);
  analysis::live::Watcher watcher;
  MasterCost cost;
  for (int64_t t = 0; t < seconds * kS; t += kS / 2) {
    for (const LiveModel::Due& due : model.until(t)) {
      cluster::LiveReport message;
      cluster::toMessage(due.report, message);
      const std::string bytes = message.SerializeAsString();
      const double start = cpuSeconds();
      cluster::LiveReport parsed;
      parsed.ParseFromString(bytes);
      const analysis::live::NodeReport report = cluster::fromMessage(parsed);
      const double read = cpuSeconds();
      watcher.take(report, due.at_ns);
      cost.parse += read - start;
      cost.take += cpuSeconds() - read;
      ++cost.reports;
    }
    const double start = cpuSeconds();
    watcher.look(t);
    cost.look += cpuSeconds() - start;
    ++cost.looks;
  }
  cost.seconds = seconds;
  return cost;
}

}  // namespace

int main(int argc, char** argv) {
  usage(argc, argv, "cluster_live_bench [--seconds 10] [--ranks 512] [--json FILE] [--smoke]");
  const bool smoke = flag(argc, argv, "--smoke");
  const int seconds = std::atoi(option(argc, argv, "--seconds", smoke ? "1" : "10").c_str());
  const int ranks = std::atoi(option(argc, argv, "--ranks", smoke ? "16" : "512").c_str());
  const std::string json = option(argc, argv, "--json", "");
  std::string text;
  JsonWriter w(text);
  w.beginObject();
  const AgentCost agent = agentCost(seconds, 8);
  if (agent.reports == 0) return 1;
  const auto reports = static_cast<double>(agent.reports);
  std::printf("agent, 8 ranks, %.0f kernels a second: %.2f ms a report, %.3f %% of a core, %.0f bytes a report\n",
              agent.records / agent.seconds, 1e3 * agent.cpu / reports, 100 * agent.cpu / agent.seconds,
              static_cast<double>(agent.bytes) / reports);
  w.field("agent_ms_per_report", 1e3 * agent.cpu / reports).field("agent_core_pct", 100 * agent.cpu / agent.seconds);
  w.field("agent_kernels_per_second", agent.records / agent.seconds);
  w.field("bytes_per_report", static_cast<double>(agent.bytes) / reports);
  for (const bool hangs : {false, true}) {
    const MasterCost m = masterCost(ranks, smoke ? 30 : 120, hangs);
    const auto n = static_cast<double>(m.reports);
    std::printf(
        "master, %d ranks%s: a report of 8 ranks read in %.0f ns, taken in %.0f ns; a look %.2f ms; %.2f %% of a "
        "core\n",
        ranks, hangs ? ", of which one hangs" : "", 1e9 * m.parse / n, 1e9 * m.take / n,
        1e3 * m.look / static_cast<double>(m.looks), 100 * (m.parse + m.take + m.look) / m.seconds);
    w.key(hangs ? "master_hang" : "master").beginObject().field("ranks", ranks);
    w.field("read_ns", 1e9 * m.parse / n).field("take_ns", 1e9 * m.take / n);
    w.field("look_ms", 1e3 * m.look / static_cast<double>(m.looks));
    w.field("core_pct", 100 * (m.parse + m.take + m.look) / m.seconds).endObject();
  }
  w.endObject();
  if (!json.empty()) std::ofstream(json) << text << "\n";
  return 0;
}
