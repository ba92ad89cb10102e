// tracesmith topo: how this machine's GPUs are connected.
#include <cstdio>
#include <memory>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/places.hpp"
#include "hardware/capability.hpp"
#include "tracesmith/hardware/gpu_topology.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  hardware::Places places;
  bool dot = false, json = false, svg = false;
  std::string output;
  std::vector<uint32_t> path;
  uint64_t bytes = 1'000'000'000;
};

int printPath(const cluster::GPUTopology& topology, const Options& o) {
  const std::vector<uint32_t> path = topology.getOptimalPath(o.path[0], o.path[1]);
  if (path.empty())
    return fail(Status::notFound("no path of known speed from GPU " + std::to_string(o.path[0]) + " to GPU " +
                                 std::to_string(o.path[1])));
  const std::optional<double> width = topology.getPathBandwidth(o.path[0], o.path[1]);
  const std::optional<double> seconds = topology.estimateTransferTime(o.path[0], o.path[1], o.bytes);
  std::string text;
  for (uint32_t g : path) text += (text.empty() ? "GPU " : " -> GPU ") + std::to_string(g);
  std::printf("%s", text.c_str());
  if (width) std::printf(": %.1f GB/s", *width);
  if (seconds) std::printf(", %s in about %s", humanBytes(o.bytes).c_str(), humanNs(*seconds * 1e9).c_str());
  std::printf("\n");
  return 0;
}

int run(const Options& o) {
  const hardware::Inventory inventory = hardware::discover(o.places);
  cluster::GPUTopology topology(inventory);
  if (Result<hardware::Capability> record = hardware::loadCapability(hardware::capabilityPath(inventory.node)); record)
    topology.setMeasured(record->links());
  if (!o.path.empty()) return printPath(topology, o);
  const std::string text = o.dot    ? topology.toGraphviz()
                           : o.json ? topology.toJSON() + "\n"
                           : o.svg  ? topology.toSVG()
                                    : topology.toASCII();
  if (o.output.empty()) {
    std::printf("%s", text.c_str());
    for (const std::string& note : inventory.notes)
      if (inventory.gpus.empty()) std::fprintf(stderr, "tracesmith: %s\n", note.c_str());
    return 0;
  }
  if (Status s = checkOutput(o.output, {}); !s) return fail(s);
  Result<OutputFile> file = OutputFile::create(o.output);
  if (!file) return fail(file.status());
  if (Status s = file->write(text); !s) return fail(s);
  if (Status s = file->commit(); !s) return fail(s);
  return 0;
}

}  // namespace

void addTopo(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("topo", "Show how this machine's GPUs are connected");
  addPlaces(command, o->places);
  Option dot = command.flag("--dot", o->dot, "Print Graphviz (dot)");
  Option json = command.flag("--json", o->json, "Print JSON; null means unknown or not measured");
  Option svg = command.flag("--svg", o->svg, "Print an SVG image");
  dot.excludes(json).excludes(svg);
  json.excludes(svg);
  command.option("-o,--output", o->output, "File to write (default: standard output)").type("FILE");
  command.option("--path", o->path, "Print the best path from one GPU to another, and how long a copy takes")
      .words(2)
      .type("FROM TO");
  command.option("--bytes", o->bytes, "Size of that copy, in bytes").showDefault();
  command.footer(
      "Prints the same matrix as nvidia-smi topo -m. Speeds are what the driver reports, in one direction; results "
      "of\n`tracesmith bench links` on this node are shown next to them.\n\nExamples:  tracesmith topo\n           "
      "tracesmith topo --svg -o node.svg\n           tracesmith topo --path 0 7 --bytes 100000000");
  command.run([o] { return run(*o); });
}

}  // namespace tracesmith::cli
