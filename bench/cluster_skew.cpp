// Whether a capture begins at one instant on all nodes.
// A master, and as many agents, each a process that is made to see a raw clock of its own: seconds to hours off,
// drifting by up to ± 100 ppm (the tests' libstep_clock.so). On each node a job that notes the true time of every
// record. After --seconds a capture of one second: how far from the instant asked for each node's part of the trace
// really begins and ends. Bar: 1 ms. Needs the test programs (scripts/build release tests).
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "../tests/support/capture_edges.hpp"
#include "cluster/rpc/client.hpp"
#include "cluster_fleet.hpp"
#include "cluster_process.hpp"
#include "cluster_scale.hpp"
#include "measure.hpp"
#include "trace/rows.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::bench {
namespace {

using namespace cluster;

struct SkewNode {
  std::string name, truth;
  std::unique_ptr<Process> agent, job;
};

/// Numbers in a trace, by node.
Result<std::map<std::string, std::set<int64_t>>> readNumbers(const std::string& path) {
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(path);
  if (!reader) return reader.status();
  const trace::TableInfo& table = trace::tableOf<trace::CounterRow>();
  const int node = table.find("node"), value = table.find("value");
  trace::BlockRows rows(**reader, table, {}, {table.find("ts"), node, value});
  std::map<std::string, std::set<int64_t>> numbers;
  for (const trace::Block* block : rows.candidates())
    if (rows.load(*block))
      for (const uint32_t r : rows.rows())
        numbers[std::string(rows.text(node, r))].insert(
            static_cast<int64_t>(std::bit_cast<double>(rows.slot(value, r))));
  return numbers;
}

}  // namespace

int skewMain(int argc, char** argv) {
  usage(argc, argv, "cluster_bench skew [--nodes 16] [--seconds 30]");
  const int count = std::stoi(option(argc, argv, "--nodes", "16"));
  const double seconds = std::stod(option(argc, argv, "--seconds", "30"));
  const std::filesystem::path build = std::filesystem::path(TRACESMITH_BIN).parent_path().parent_path();
  const std::string job = build / "bin/tests/numbered_job", shim = build / "lib/libstep_clock.so";
  if (!std::filesystem::exists(job) || !std::filesystem::exists(shim))
    give_up(Status::notFound("the test programs are missing: run scripts/build release tests"));
  char pattern[] = "/tmp/tracesmith-bench-XXXXXX";
  const std::string dir = ::mkdtemp(pattern);
  const std::string port = std::to_string(freePort()), address = "127.0.0.1:" + port;
  uint64_t beyond = 0;
  {
    Process master({"cluster", "master", "--port", port, "--data-dir", dir + "/m", "--http-port", "0"});
    std::vector<SkewNode> nodes(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      SkewNode& n = nodes[static_cast<size_t>(i)];
      n.name = fleetNode(i);
      n.truth = dir + "/truth-" + n.name;
      const std::string folder = dir + "/" + n.name, rings = folder + "/rings";
      std::filesystem::create_directories(folder);
      ::mkdir(rings.c_str(), 0700);
      const int64_t offset_ns = (i * 1'234'567'891ll) % 7'200'000'000'000ll * (i % 3 == 0 ? 100 : 1);
      const int ppm = count > 1 ? -100 + 200 * i / (count - 1) : 0;
      const std::vector<std::string> env{"/usr/bin/env", "LD_PRELOAD=" + shim,
                                         "SKEW_RAW_NS=" + std::to_string(offset_ns),
                                         "SKEW_RAW_PPM=" + std::to_string(ppm), "TRACESMITH_DIR=" + rings};
      auto with = [&](std::vector<std::string> argv_of) {
        argv_of.insert(argv_of.begin(), env.begin(), env.end());
        return std::make_unique<Process>(argv_of, false);
      };
      n.agent = with({TRACESMITH_BIN, "cluster", "agent", "--port", "0", "--master", address, "--node-id", n.name,
                      "--data-dir", folder});
      n.job = with({job, rings, "100000000", "20000", "65536", n.truth});
    }
    Result<std::unique_ptr<Client>> client = connectClient({.master = address, .security = {}});
    if (!client) give_up(client.status());
    statusWhen(**client, [&](const ClusterStatus& s) {
      return std::count_if(s.nodes.begin(), s.nodes.end(), [](const NodeStatus& n) { return n.connected; }) == count;
    });
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    Result<SessionInfo> session = (*client)->start({.name = "skew", .duration_s = 1});
    if (!session) give_up(session.status());
    const ClusterStatus status = statusWhen(**client, [](const ClusterStatus& s) {
      return !s.sessions.empty() && s.sessions[0].state == model::SessionState::complete;
    });
    if (Status s = (*client)->fetch("skew", dir + "/skew.sbt", [](uint64_t) {}); !s) give_up(s);
    for (SkewNode& n : nodes) n.job->end();
    Result<std::map<std::string, std::set<int64_t>>> numbers = readNumbers(dir + "/skew.sbt");
    if (!numbers) give_up(numbers.status());
    std::string boot;
    int64_t anchor = 0;
    std::ifstream(dir + "/m/master/reference") >> boot >> anchor;
    int64_t worst_start = 0, worst_end = 0, worst_bound = 0, holes = 0;
    for (const NodeStatus& node : status.nodes) {
      const test::CaptureEdges e =
          test::captureEdges(test::readTruth(dir + "/truth-" + node.node), (*numbers)[node.node],
                             session->start_ns - anchor, session->end_ns - anchor);
      if (!e.covered) give_up(Status::io("node " + node.node + " has no part of the capture"));
      worst_start = std::max(worst_start, e.start_error_ns);
      worst_end = std::max(worst_end, e.end_error_ns);
      if (node.clock) worst_bound = std::max(worst_bound, node.clock->bound_ns);
      holes += e.holes;
      beyond += e.start_error_ns > 1'000'000 || e.end_error_ns > 1'000'000;
    }
    std::printf(
        "%d nodes, clocks hours apart and drifting by up to 100 ppm, %.0f s after they connected: the capture begins "
        "within %.1f µs of the instant asked for on every node, and ends within %.1f µs (records are 50 µs apart: an "
        "edge between two of them is no error); largest bound printed %.1f µs; records missing inside: %lld\n",
        count, seconds, static_cast<double>(worst_start) / 1e3, static_cast<double>(worst_end) / 1e3,
        static_cast<double>(worst_bound) / 1e3, static_cast<long long>(holes));
    if (holes > 0) ++beyond;
  }
  std::filesystem::remove_all(dir);
  return beyond ? 1 : 0;
}

}  // namespace tracesmith::bench
