// What a cluster costs, with real processes on this machine.
// Part 1: a master, an agent and a simulated job whose ranks write as fast as they are read; events a second from ring
// to durable store, per core of agent and master, bytes an event on the wire (the spool's bytes are the wire's). Part
// 2: an agent while nothing records. Part 3: N registered nodes of 8 GPUs, `cluster status` against them, and the
// master's memory.
// scale, capture and skew, with many nodes: see cluster_scale.cpp and cluster_skew.cpp.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "access/guard.hpp"
#include "cluster/rpc/client.hpp"
#include "cluster/rpc/rpc.hpp"
#include "cluster_fleet.hpp"
#include "cluster_process.hpp"
#include "cluster_scale.hpp"
#include "measure.hpp"

namespace tracesmith::bench {
namespace {

using namespace cluster;
using Clock = std::chrono::steady_clock;

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "fleet") return fleetMain(argc, argv);
  if (mode == "scale") return scaleMain(argc, argv);
  if (mode == "capture") return captureMain(argc, argv);
  if (mode == "skew") return skewMain(argc, argv);
  usage(argc, argv,
        "cluster_bench [--smoke] [--seconds S] [--ranks N] [--nodes N]\n"
        "       cluster_bench scale|capture|skew …   (--help says what they take)");
  const bool smoke = flag(argc, argv, "--smoke");
  const double seconds = std::stod(option(argc, argv, "--seconds", smoke ? "1" : "20"));
  const std::string ranks = option(argc, argv, "--ranks", "2");
  const int nodes = std::stoi(option(argc, argv, "--nodes", smoke ? "16" : "512"));
  char pattern[] = "/tmp/tracesmith-bench-XXXXXX";
  const std::string dir = ::mkdtemp(pattern);
  ::mkdir((dir + "/rings").c_str(), 0700);
  ::setenv("TRACESMITH_DIR", (dir + "/rings").c_str(), 1);
  const std::string port = std::to_string(freePort()), address = "127.0.0.1:" + port;
  {
    Process master(
        {"cluster", "master", "--port", port, "--data-dir", dir + "/m", "--heartbeat", "200", "--http-port", "0"});
    Process agent(
        {"cluster", "agent", "--port", "0", "--master", address, "--data-dir", dir + "/a", "--node-id", "node0"});
    Result<std::unique_ptr<Client>> client = connectClient({.master = address, .security = {}});
    if (!client) give_up(client.status());
    statusWhen(**client, [](const ClusterStatus& s) { return s.nodes.size() == 1 && s.nodes[0].connected; });
    // Part 2 first: nothing has happened yet.
    std::this_thread::sleep_for(std::chrono::seconds(smoke ? 1 : 15));  // the clock's first bursts are over
    const double idle_before = agent.cpu();
    std::this_thread::sleep_for(std::chrono::duration<double>(smoke ? 1 : 20));
    const double idle = (agent.cpu() - idle_before) / (smoke ? 1 : 20);
    const double idle_mb = agent.memoryMb();

    Result<SessionInfo> session = (*client)->start({.name = "load"});
    if (!session) give_up(session.status());
    Process job({"synth", "--live", "--ranks", ranks, "--gpus-per-node", ranks, "--speed", "0"});
    const ClusterStatus before =
        statusWhen(**client, [](const ClusterStatus& s) { return s.nodes[0].stored_events > 0; });
    const double agent_cpu = agent.cpu(), master_cpu = master.cpu(), job_cpu = job.cpu();
    const auto began = Clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    Result<ClusterStatus> after = (*client)->status();
    if (!after) give_up(after.status());
    const double wall = std::chrono::duration<double>(Clock::now() - began).count();
    const auto events = static_cast<double>(after->nodes[0].stored_events - before.nodes[0].stored_events);
    const auto bytes = static_cast<double>(after->nodes[0].stored_bytes - before.nodes[0].stored_bytes);
    const double a = agent.cpu() - agent_cpu, m = master.cpu() - master_cpu, j = job.cpu() - job_cpu;
    std::printf(
        "ring to durable store: %.2f million events/s; %.2f million per core (agent %.2f, master %.2f, job %.2f "
        "cores)\n",
        events / wall / 1e6, events / (a + m) / 1e6, a / wall, m / wall, j / wall);
    std::printf("on the wire: %.2f bytes/event; memory: agent %.0f MB, master %.0f MB; lost %llu\n", bytes / events,
                agent.memoryMb(), master.memoryMb(), static_cast<unsigned long long>(after->nodes[0].losses));
    std::printf("agent while nothing records: %.2f %% of a core, %.1f MB\n", idle * 100, idle_mb);
  }
  {
    Process master({"cluster", "master", "--port", port, "--data-dir", dir + "/m2", "--http-port", "0"});
    Result<std::unique_ptr<Client>> client = connectClient({.master = address, .security = {}});
    if (!client) give_up(client.status());
    statusWhen(**client, [](const ClusterStatus&) { return true; });
    auto channel = openChannel(address, {});
    auto stub = pb::ClusterService::NewStub(*channel);
    const auto began = Clock::now();
    for (int n = 0; n < nodes; ++n) {
      pb::RegisterNodeRequest request;
      request.set_node("node" + std::to_string(n));
      request.set_hostname("node" + std::to_string(n));
      request.set_agent_id("agent" + std::to_string(n));
      for (uint32_t gpu = 0; gpu < 8; ++gpu) {
        pb::DeviceInfo& d = *request.add_gpus();
        d.set_index(gpu);
        d.set_name("Simulated H100");
        d.set_memory_bytes(80'000'000'000);
      }
      pb::RegisterNodeResponse response;
      grpc::ClientContext context;
      if (!stub->RegisterNode(&context, request, &response).ok() || !response.success())
        give_up(Status::io("a node was refused"));
      pb::HeartbeatRequest beat;
      beat.mutable_state()->set_node(request.node());
      pb::HeartbeatResponse answer;
      grpc::ClientContext other;
      if (!stub->Heartbeat(&other, beat, &answer).ok()) give_up(Status::io("a heartbeat was refused"));
    }
    const double each = std::chrono::duration<double>(Clock::now() - began).count() / nodes;
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) {
      const Cost cost = measure([&] {
        ::dup2(::open("/dev/null", O_WRONLY), 1);
        ::execl(TRACESMITH_BIN, TRACESMITH_BIN, "cluster", "status", "--master", address.c_str(), nullptr);
        return 127;
      });
      times.push_back(cost.wall_s);
    }
    std::sort(times.begin(), times.end());
    std::printf(
        "%d nodes x 8 GPUs: registration and heartbeat %.2f ms each; `cluster status` %.3f s (median of 5); master "
        "%.0f MB\n",
        nodes, each * 1e3, times[2], master.memoryMb());
  }
  std::filesystem::remove_all(dir);
  return 0;
}

}  // namespace
}  // namespace tracesmith::bench

int main(int argc, char** argv) { return tracesmith::bench::main(argc, argv); }
