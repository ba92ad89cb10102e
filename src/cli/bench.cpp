// tracesmith bench: what this machine can really do.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <memory>

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
  std::printf("%s, %s\n%s", printable(c.node).c_str(), c.measured_at.c_str(), alignTable(rows).c_str());
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
  std::fprintf(stderr, "tracesmith: kept in %s\n", path.c_str());
  return 0;
}

int measure(const Options& options, bool links_only) {
  Options o = options;
  if (o.quick) {
    o.bench.repetitions = 3;
    o.bench.seconds = 0.05;
    o.bench.disk_bytes = 32u << 20;
  }
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
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
    benchLinks(o.bench, inventory, record);
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

void addCommon(CLI::App& command, Options& o) {
  addPlaces(command, o.places);
  command.add_option("-o,--output", o.output, "Capability record to write; default: tracesmith-data/nodes/<node>.json")
      ->type_name("FILE.json");
  command.add_option("--nodes", o.nodes_yaml, "nodes.yaml whose capabilities stand over those measured")
      ->type_name("FILE.yaml");
  command.add_flag("--json", o.json, "Print JSON");
}

}  // namespace

void addBench(CLI::App& app, Run& run) {
  auto o = std::make_shared<Options>();
  CLI::App* bench = app.add_subcommand("bench", "Measure what this machine can do: CPU, memory, disk, network, GPUs");
  bench->require_subcommand(1);
  CLI::App* hardware =
      bench->add_subcommand("hardware", "Measure everything and keep it as the node's capability record");
  addCommon(*hardware, *o);
  hardware->add_option("--only", o->only, "Some of cpu, memory, disk, network, gpu, with commas")->type_name("LIST");
  hardware->add_option("--repeat", o->bench.repetitions, "Repetitions")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  hardware->add_option("--dir", o->bench.dir, "Folder whose disk is measured; default: this one")->type_name("DIR");
  hardware->add_option("--peer", o->bench.peer, "Also the network to a machine that runs `tracesmith bench serve`")
      ->type_name("HOST:PORT");
  hardware->add_flag("--quick", o->quick, "Shorter and rougher");
  hardware->footer("Example:  tracesmith bench hardware --only cpu,gpu");
  hardware->callback([o, &run] { run = [o] { return measure(*o, false); }; });
  CLI::App* links = bench->add_subcommand("links", "Measure copies between GPUs; `tracesmith topo` shows them then");
  addCommon(*links, *o);
  links->add_option("--repeat", o->bench.repetitions, "Repetitions")->capture_default_str()->check(CLI::Range(1, 1000));
  links->add_flag("--quick", o->quick, "Shorter and rougher");
  links->callback([o, &run] { run = [o] { return measure(*o, true); }; });
  CLI::App* shown_record = bench->add_subcommand("show", "Print the node's capability record, nodes.yaml applied");
  addCommon(*shown_record, *o);
  shown_record->callback([o, &run] { run = [o] { return show(*o); }; });
  CLI::App* server = bench->add_subcommand("serve", "Be the other end of another machine's `bench hardware --peer`");
  server->add_option("--bind", o->bind, "Address to listen on")->capture_default_str();
  server->add_option("--port", o->port, "Port; 0: any free one")->capture_default_str()->check(CLI::Range(0, 65535));
  server->callback([o, &run] { run = [o] { return serve(*o); }; });
  bench->footer("Examples:  tracesmith bench hardware\n           tracesmith bench links && tracesmith topo");
}

}  // namespace tracesmith::cli
