// tracesmith bench: what this machine can really do.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <memory>

#include "base/progress.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/outcome.hpp"
#include "cli/places.hpp"
#include "cli/terminal.hpp"
#include "hardware/bench/bench.hpp"

namespace tracesmith::cli {
namespace {

using namespace hardware;

struct Options {
  Places places;
  BenchOptions bench;
  std::string only, output, nodes_yaml;
  bool json = false, quick = false, show = false;
  std::string bind = "127.0.0.1";
  int port = 0;
};

std::atomic<bool> g_stop{false};

std::string now() {
  const std::time_t t = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&t, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string shown(double v) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, v >= 100 ? "%.0f" : v >= 10 ? "%.1f" : "%.2f", v);
  return buffer;
}

void print(const Capability& c) {
  std::vector<std::vector<std::string>> rows = {{"what", "of", "median", "unit", "spread", "how"}};
  for (const Figure& f : c.figures)
    rows.push_back({f.name, f.part.empty() ? "node" : printable(f.part), shown(f.median), f.unit,
                    f.repetitions == 0
                        ? "declared"
                        : shown(f.low) + " to " + shown(f.high) + ", " + std::to_string(f.repetitions) + " times",
                    printable(f.how)});
  std::printf("%s, %s\n%s", printable(c.node).c_str(), c.measured_at.c_str(), tableText(rows).c_str());
  for (const std::string& n : c.notes) std::printf("note: %s\n", printable(n).c_str());
}

bool wanted(const Options& o, const char* what) {
  return o.only.empty() || ("," + o.only + ",").find("," + std::string(what) + ",") != std::string::npos;
}

int finish(const Options& o, Capability& record, const std::string& path) {
  if (!o.nodes_yaml.empty())
    if (Status s = applyNodesYaml(o.nodes_yaml, record); !s) return fail(s);
  if (Status s = saveCapability(path, record); !s) return fail(s);
  o.json ? static_cast<void>(std::printf("%s\n", capabilityJson(record).c_str())) : print(record);
  std::fprintf(stderr, "tracesmith: saved as %s\n", path.c_str());
  return 0;
}

int measure(const Options& options, bool links_only) {
  Options o = options;
  if (o.quick) {
    o.bench.repetitions = 3;
    o.bench.seconds = 0.05;
    o.bench.disk_bytes = 32u << 20;
  }
  const bool terminal = drawsOn(STDERR_FILENO);
  o.bench.progress = [terminal](const std::string& what) {
    if (terminal) std::fprintf(stderr, "\r\x1b[Kmeasuring %s…", what.c_str());
  };
  const Inventory inventory = discover(o.places);
  const std::string path = o.output.empty() ? capabilityPath(inventory.node) : o.output;
  Capability record;  // what was measured before stays, unless it is measured again
  if (Result<Capability> old = loadCapability(path); old) record = *old;
  record.notes.clear();
  record.node = inventory.node;
  record.measured_at = now();
  if (links_only) {
    const Status measured = benchLinks(o.bench, inventory, record);
    if (terminal) std::fprintf(stderr, "\r\x1b[K");
    if (!measured) return fail(measured);
  } else {
    if (wanted(o, "cpu")) benchCpu(o.bench, record);
    if (wanted(o, "memory")) benchMemory(o.bench, record);
    if (wanted(o, "disk")) benchDisk(o.bench, record);
    if (wanted(o, "network")) benchNetwork(o.bench, record);
    if (wanted(o, "gpu")) benchGpus(o.bench, inventory, record);
  }
  if (terminal) std::fprintf(stderr, "\r\x1b[K");
  return finish(o, record, path);
}

int show(const Options& o) {
  const Inventory inventory = discover(o.places);
  const std::string path = o.output.empty() ? capabilityPath(inventory.node) : o.output;
  Result<Capability> record = loadCapability(path);
  if (!record && o.nodes_yaml.empty()) return fail(record.status());
  Capability c = record ? *record : Capability{};
  c.node = inventory.node;
  if (!o.nodes_yaml.empty())
    if (Status s = applyNodesYaml(o.nodes_yaml, c); !s) return fail(s);
  o.json ? static_cast<void>(std::printf("%s\n", capabilityJson(c).c_str())) : print(c);
  return 0;
}

int serve(const Options& o) {
  for (int n : {SIGINT, SIGTERM}) ::signal(n, [](int) { g_stop = true; });
  Status s = serveNetwork(
      o.bind, o.port,
      [&](int port) {
        std::printf("listening on %s:%d\n", o.bind.c_str(), port);
        std::fflush(stdout);
      },
      [] { return g_stop.load(); });
  return s ? 0 : fail(s);
}

constexpr const char* kWritten = "Capability record to write (default: tracesmith-data/nodes/<node>.json)";

/// `about`: what the file of the capability record is for.
void addCommon(Command& command, Options& o, const char* about) {
  addPlaces(command, o.places);
  command.option("-o,--output", o.output, about).type("FILE.json");
  command.option("--nodes", o.nodes_yaml, "nodes.yaml whose values override the measured ones").type("FILE.yaml");
  command.flag("--json", o.json, "Print JSON");
}

}  // namespace

void addBench(Command& app) {
  auto o = std::make_shared<Options>();
  Command bench = app.command("bench", "Measure what this machine can do: CPU, memory, disk, network, GPUs");
  bench.needsCommand();
  Command hardware = bench.command("hardware", "Measure everything and save it as the node's capability record");
  addCommon(hardware, *o, kWritten);
  hardware.option("--only", o->only, "Measure only these: cpu, memory, disk, network, gpu, separated by commas")
      .type("LIST");
  hardware.option("--repeat", o->bench.repetitions, "Number of repetitions").showDefault().check(range(1, 1000));
  hardware.option("--dir", o->bench.dir, "Folder whose disk is measured (default: the current one)").type("DIR");
  hardware.option("--peer", o->bench.peer, "Also measure the network to a machine that runs `tracesmith bench serve`")
      .type("HOST:PORT");
  hardware.flag("--quick", o->quick, "Faster but less precise");
  hardware.footer("Example:  tracesmith bench hardware --only cpu,gpu");
  hardware.run([o] { return measure(*o, false); });
  Command links = bench.command("links", "Measure copies between GPUs; `tracesmith topo` then shows the results");
  addCommon(links, *o, kWritten);
  links.option("--repeat", o->bench.repetitions, "Number of repetitions").showDefault().check(range(1, 1000));
  links.flag("--quick", o->quick, "Faster but less precise");
  links.footer("Example:  tracesmith bench links && tracesmith topo");
  links.run([o] { return measure(*o, true); });
  Command shown_record = bench.command("show", "Print the node's capability record, with nodes.yaml applied");
  addCommon(shown_record, *o, "Capability record to print (default: tracesmith-data/nodes/<node>.json)");
  shown_record.footer("Example:  tracesmith bench show --nodes nodes.yaml");
  shown_record.run([o] { return show(*o); });
  Command server = bench.command("serve", "Answer another machine's `bench hardware --peer`");
  server.option("--bind", o->bind, "Address to listen on").showDefault();
  server.option("--port", o->port, "Port to listen on; 0 picks a free one").showDefault().check(range(0, 65535));
  server.footer(
      "Example:  tracesmith bench serve --bind 0.0.0.0 --port 5201              (on node1)\n"
      "          tracesmith bench hardware --only network --peer node1:5201     (on node2)");
  server.run([o] { return serve(*o); });
  bench.footer("Examples:  tracesmith bench hardware\n           tracesmith bench links && tracesmith topo");
}

}  // namespace tracesmith::cli
