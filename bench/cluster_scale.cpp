// Many nodes of 8 GPUs against one master, which is a process as users start it. Agents are the product's own parts,
// several in a process (cluster_fleet.hpp), each with its own connection.
// scale: a session with so many events a second in total and telemetry; the master's memory and CPU over time, what was
// lost, what was missed; then the session as one trace, checked event by event. capture: so many events as fast as they
// are taken: end to end, stored and readable as one trace. Beyond 128 nodes agents look at their rings every 100 ms,
// not 20, and a node has one process with 8 GPUs unless
// --ranks says otherwise: it is the master that is measured, and two cores have to be all the nodes as well.
// A difference fails the benchmark.
#include "cluster_scale.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <memory>
#include <numeric>

#include "cluster/rpc/client.hpp"
#include "cluster_check.hpp"
#include "cluster_fleet.hpp"
#include "cluster_process.hpp"
#include "measure.hpp"

namespace tracesmith::bench {
namespace {

using namespace cluster;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

double ownCpu() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

constexpr const char* kUsage =
    "cluster_bench scale [--nodes 64] [--seconds 600] [--rate 1000000] [--freq 100] [--query]\n"
    "       cluster_bench capture [--nodes 64] [--events 100000000]\n"
    "both:  [--ranks 8] [--processes 4] [--dir FOLDER] [--keep] [--no-check]";

/// A master and its fleets.
class Scene {
 public:
  Scene(int argc, char** argv)
      : nodes(std::stoi(option(argc, argv, "--nodes", "64"))),
        ranks(std::stoi(option(argc, argv, "--ranks", nodes > 128 ? "1" : "8"))),
        keep_(flag(argc, argv, "--keep")),
        check_(!flag(argc, argv, "--no-check")) {
    std::string pattern = option(argc, argv, "--dir", "/tmp") + "/tracesmith-bench-XXXXXX";
    dir_ = ::mkdtemp(pattern.data()) ? pattern : "";
    if (dir_.empty()) give_up(Status::io("cannot create " + pattern));
    const std::string port = std::to_string(freePort());
    address_ = "127.0.0.1:" + port;
    master = std::make_unique<Process>(
        std::vector<std::string>{"cluster", "master", "--port", port, "--data-dir", dir_ + "/m", "--http-port", "0"});
    Result<std::unique_ptr<Client>> connected = connectClient({.master = address_, .security = {}});
    if (!connected) give_up(connected.status());
    client = std::move(*connected);
    statusWhen(*client, [](const ClusterStatus&) { return true; });
    const int processes = std::min(nodes, std::stoi(option(argc, argv, "--processes", "4")));
    const auto began = Clock::now();
    for (int p = 0; p < processes; ++p) {
      FleetOptions o;
      o.first = nodes * p / processes;
      o.nodes = nodes * (p + 1) / processes - o.first;
      o.ranks = ranks;
      o.ring_records = std::bit_ceil(std::max(1024u, (1u << 22) / static_cast<unsigned>(nodes * ranks)));
      o.master = address_;
      // Agents look at their rings every 20 ms. Hundreds of them on two cores would do little else.
      o.tick_ms = nodes > 128 ? 100 : 20;
      o.folder = dir_ + "/agents";
      std::filesystem::create_directories(o.folder);
      fleets.push_back(std::make_unique<Fleet>(o));
    }
    for (auto& fleet : fleets) fleet->waitReady();
    const double made = since(began);
    statusWhen(*client, [&](const ClusterStatus& s) {
      return s.nodes.size() == static_cast<size_t>(nodes) &&
             std::all_of(s.nodes.begin(), s.nodes.end(), [](const NodeStatus& n) { return n.connected; });
    });
    std::printf(
        "%d nodes x %d GPUs, %d ranks each: agents started in %.1f s, all registered and connected after %.1f s\n",
        nodes, kFleetGpus, ranks, made, since(began));
    printStatusTime();
  }
  ~Scene() {
    fleets.clear();
    client.reset();
    master.reset();
    if (!keep_) std::filesystem::remove_all(dir_);
  }

  /// `cluster status`, the whole command.
  void printStatusTime() {
    std::vector<double> times;
    for (int i = 0; i < 5; ++i)
      times.push_back(measure([&] {
                        ::dup2(::open("/dev/null", O_WRONLY), 1);
                        ::execl(TRACESMITH_BIN, TRACESMITH_BIN, "cluster", "status", "--master", address_.c_str(),
                                nullptr);
                        return 127;
                      }).wall_s);
    std::sort(times.begin(), times.end());
    std::printf("`cluster status`: %.3f s (median of 5, longest %.3f s)\n", times[2], times[4]);
  }

  /// `cluster query` over the session, the whole command.
  void printQueryTimes() {
    const std::pair<const char*, const char*> kQueries[] = {
        {"filtered aggregate of events",
         "SELECT rank, count(*), avg(dur) FROM events WHERE rank BETWEEN 100 AND 107 GROUP BY rank"},
        {"filtered aggregate of metrics",
         "SELECT node, avg(value) FROM metrics WHERE name = 'gpu_power_watts' AND device = 3 GROUP BY node"},
        {"processes of all nodes, now", "SELECT count(*) FROM live.processes"}};
    constexpr int kTimes = 40;
    for (const auto& query : kQueries) {
      const auto [what, text] = query;
      const char* sql = text;
      std::vector<double> times;
      for (int i = 0; i < kTimes; ++i)
        times.push_back(measure([&] {
                          ::dup2(::open("/dev/null", O_WRONLY), 1);
                          ::dup2(1, 2);
                          ::execl(TRACESMITH_BIN, TRACESMITH_BIN, "cluster", "query", "--name", "load", "--master",
                                  address_.c_str(), sql, nullptr);
                          return 127;
                        }).wall_s);
      std::sort(times.begin(), times.end());
      std::printf("`cluster query`, %s: %.3f s (median of %d; 95 %% within %.3f s, longest %.3f s)\n", what,
                  times[kTimes / 2], kTimes, times[kTimes * 95 / 100], times[kTimes - 1]);
      std::fflush(stdout);
    }
  }

  Fleet::Written stop() {
    Fleet::Written all;
    for (auto& fleet : fleets) {
      const Fleet::Written w = fleet->stop();
      all.events.insert(all.events.end(), w.events.begin(), w.events.end());
      all.lost += w.lost;
      all.late += w.late;
      all.cpu_s += w.cpu_s;
      all.job_cpu_s += w.job_cpu_s;
    }
    return all;
  }

  SessionInfo start(uint32_t freq_ms) {
    Result<SessionInfo> session = client->start({.name = "load", .freq_ms = freq_ms});
    if (!session) give_up(session.status());
    return *session;
  }
  /// Returns when everything is in.
  SessionInfo finish() {
    Result<std::vector<SessionInfo>> stopped = client->stop("load");
    if (!stopped) give_up(stopped.status());
    for (;;) {
      const ClusterStatus s = statusWhen(*client, [](const ClusterStatus& status) {
        return !status.sessions.empty() && status.sessions[0].end_ns != 0;
      });
      if (s.sessions[0].state == model::SessionState::complete) return s.sessions[0];
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  /// 0 if the trace has all that was written, once.
  int fetchAndCheck(const SessionInfo& session, const Fleet::Written& written, double freq_ms) {
    const std::string path = dir_ + "/all.sbt";
    auto began = Clock::now();
    const double master_cpu = master->cpu();
    if (Status s = client->fetch("load", path, [](uint64_t) {}); !s) give_up(s);
    std::printf("fetched as one trace: %.2f GB in %.1f s (master %.1f s of CPU); master %.0f MB, peak %.0f MB\n",
                static_cast<double>(std::filesystem::file_size(path)) / 1e9, since(began), master->cpu() - master_cpu,
                master->memoryMb(), master->memoryMb("VmHWM:"));
    if (!check_) return 0;
    fleets.clear();  // hundreds of idle agents take a core from the reader
    began = Clock::now();
    const double own = ownCpu();
    Result<FleetCheck> check = checkFleet(path, nodes, ranks, written.events);
    if (!check) give_up(check.status());
    const uint64_t wrote = std::accumulate(written.events.begin(), written.events.end(), uint64_t{0});
    const uint64_t missing = std::accumulate(check->missing_of_ring.begin(), check->missing_of_ring.end(), uint64_t{0});
    const auto [least, most] = std::minmax_element(check->of_node.begin(), check->of_node.end());
    std::printf(
        "read in order of corrected time in %.1f s (%.1f s of CPU): %llu events of %llu written; missing %llu, doubled "
        "%llu, foreign %llu, out of order %llu; damaged blocks %llu; losses told %llu; by node %llu to %llu\n",
        since(began), ownCpu() - own, static_cast<unsigned long long>(check->events),
        static_cast<unsigned long long>(wrote), static_cast<unsigned long long>(missing),
        static_cast<unsigned long long>(check->doubled), static_cast<unsigned long long>(check->foreign),
        static_cast<unsigned long long>(check->out_of_order), static_cast<unsigned long long>(check->damaged),
        static_cast<unsigned long long>(check->losses), static_cast<unsigned long long>(*least),
        static_cast<unsigned long long>(*most));
    if (freq_ms > 0) {
      const double seconds = static_cast<double>(session.end_ns - session.start_ns) / 1e9;
      const auto each = static_cast<uint64_t>(seconds * 1000 / freq_ms);
      std::printf("telemetry: %llu samples in %llu series; %llu expected of each in %.1f s, the fewest has %llu\n",
                  static_cast<unsigned long long>(check->samples), static_cast<unsigned long long>(check->series),
                  static_cast<unsigned long long>(each), seconds, static_cast<unsigned long long>(check->fewest));
    }
    const bool good = missing == written.lost && check->doubled + check->foreign + check->out_of_order == 0 &&
                      check->damaged == 0 && check->losses == written.lost;
    if (!good) std::printf("the trace differs from what was written\n");
    return good ? 0 : 1;
  }
  uint64_t storedBytes() {
    Result<ClusterStatus> s = client->status();
    return s ? s->stored_bytes : 0;
  }
  double fleetCpu() const {
    double sum = 0;
    for (const auto& fleet : fleets) sum += cpuOf(fleet->pid());
    return sum;
  }

  const int nodes, ranks;
  std::unique_ptr<Process> master;
  std::unique_ptr<Client> client;
  std::vector<std::unique_ptr<Fleet>> fleets;

 private:
  const bool keep_, check_;
  std::string dir_, address_;
};

}  // namespace

int scaleMain(int argc, char** argv) {
  usage(argc, argv, kUsage);
  const double seconds = std::stod(option(argc, argv, "--seconds", "600"));
  const double rate = std::stod(option(argc, argv, "--rate", "1000000"));
  const auto freq = static_cast<uint32_t>(std::stoul(option(argc, argv, "--freq", "100")));
  Scene scene(argc, argv);
  scene.start(freq);
  for (auto& fleet : scene.fleets) fleet->rate(rate / static_cast<double>(scene.fleets.size()));
  std::printf("%8s %12s %12s %10s %10s %12s %12s %10s\n", "s", "master MB", "private MB", "master", "fleet",
              "M events/s", "behind MB", "silent s");
  double silent = 0;
  uint64_t unhealthy = 0, before_events = 0;
  const auto began = Clock::now();
  auto row_at = began;
  double master_cpu = scene.master->cpu(), fleet_cpu = scene.fleetCpu();
  const double row_s = seconds >= 120 ? 60 : seconds / 4;
  for (double next_row = 0; since(began) < seconds + 0.5;) {
    const ClusterStatus s = statusWhen(*scene.client, [](const ClusterStatus&) { return true; });
    uint64_t events = 0, behind = 0;
    for (const NodeStatus& n : s.nodes) {
      silent = std::max(silent, n.silent_s.value_or(0));
      unhealthy += !n.healthy;
      events += n.stored_events;
      behind += n.spool_bytes;
    }
    if (since(began) >= next_row) {
      const double wall = since(row_at);
      const double m = scene.master->cpu(), f = scene.fleetCpu();
      std::printf("%8.0f %12.1f %12.1f %10.3f %10.3f %12.3f %12.1f %10.1f\n", since(began), scene.master->memoryMb(),
                  scene.master->memoryMb("RssAnon:"), next_row > 0 ? (m - master_cpu) / wall : 0,
                  next_row > 0 ? (f - fleet_cpu) / wall : 0,
                  next_row > 0 ? static_cast<double>(events - before_events) / wall / 1e6 : 0,
                  static_cast<double>(behind) / 1e6, silent);
      std::fflush(stdout);
      master_cpu = m, fleet_cpu = f, before_events = events, row_at = Clock::now();
      next_row += row_s;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  }
  const double wall = since(began);
  const Fleet::Written written = scene.stop();
  scene.printStatusTime();
  const SessionInfo session = scene.finish();
  if (flag(argc, argv, "--query")) scene.printQueryTimes();
  const uint64_t wrote = std::accumulate(written.events.begin(), written.events.end(), uint64_t{0});
  std::printf(
      "%.1f s: %llu events written (%.3f million/s), %llu lost by rings, %llu not written because a ring was full; "
      "%.2f "
      "bytes/event with telemetry; fleet %.1f s of CPU, of it the jobs %.1f\n"
      "longest silence of a node %.1f s (heartbeats every 5 s); node-seconds unhealthy %llu; master peak %.0f MB\n",
      wall, static_cast<unsigned long long>(wrote), static_cast<double>(wrote) / wall / 1e6,
      static_cast<unsigned long long>(written.lost), static_cast<unsigned long long>(2 * written.late),
      static_cast<double>(scene.storedBytes()) / static_cast<double>(wrote), written.cpu_s, written.job_cpu_s, silent,
      static_cast<unsigned long long>(unhealthy), scene.master->memoryMb("VmHWM:"));
  return scene.fetchAndCheck(session, written, freq);
}

int captureMain(int argc, char** argv) {
  usage(argc, argv, kUsage);
  const uint64_t events = std::stoull(option(argc, argv, "--events", "100000000"));
  Scene scene(argc, argv);
  scene.start(1000);
  const double master_cpu = scene.master->cpu(), fleet_cpu = scene.fleetCpu();
  const auto began = Clock::now();
  const uint64_t per_ring = events / static_cast<uint64_t>(scene.nodes * scene.ranks) / 2 * 2;
  std::vector<std::thread> fills;
  for (auto& fleet : scene.fleets) fills.emplace_back([&] { fleet->fill(per_ring); });
  for (std::thread& t : fills) t.join();
  const double written_s = since(began);
  const Fleet::Written written = scene.stop();
  const SessionInfo session = scene.finish();
  const double stored_s = since(began), m = scene.master->cpu() - master_cpu,
               f = scene.fleetCpu() - fleet_cpu - written.job_cpu_s;
  const auto wrote = static_cast<double>(std::accumulate(written.events.begin(), written.events.end(), uint64_t{0}));
  std::printf(
      "%.0f events written in %.1f s, all stored after %.1f s: %.3f million/s; %.3f million per core of agents and "
      "master "
      "(agents %.1f s, master %.1f s, jobs %.1f s of CPU); %.2f bytes/event on the wire; lost %llu; master peak %.0f "
      "MB\n",
      wrote, written_s, stored_s, wrote / stored_s / 1e6, wrote / (m + f) / 1e6, f, m, written.job_cpu_s,
      static_cast<double>(scene.storedBytes()) / wrote, static_cast<unsigned long long>(written.lost),
      scene.master->memoryMb("VmHWM:"));
  std::fflush(stdout);
  return scene.fetchAndCheck(session, written, 0);
}

}  // namespace tracesmith::bench
