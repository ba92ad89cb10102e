// tracesmith devices: what this machine is made of.
#include <cstdio>
#include <memory>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/place.hpp"
#include "cli/places.hpp"
#include "cli/select.hpp"
#include "cli/terminal.hpp"
#include "hardware/inventory.hpp"

namespace tracesmith::cli {
namespace {

using namespace hardware;

struct Options {
  Places places;
  SelectOptions select;
  PlaceOptions place;
  bool json = false;
};

std::string bytes(int64_t n) { return n == kUnknown ? "-" : humanBytes(static_cast<uint64_t>(n)); }
std::string number(int64_t n) { return n == kUnknown ? "-" : std::to_string(n); }
std::string orDash(const std::string& s) { return s.empty() ? "-" : s; }

std::string speed(int64_t mbit) {
  if (mbit == kUnknown) return "-";
  return mbit >= 1000 ? std::to_string(mbit / 1000) + " Gbit/s" : std::to_string(mbit) + " Mbit/s";
}

std::string links(const Gpu& g) {
  size_t active = 0, to_switch = 0;
  int64_t version = kUnknown;
  for (const NvLink& l : g.links) {
    if (!l.active) continue;
    ++active;
    version = l.version;
    to_switch += l.remote == NvLink::Remote::nvswitch;
  }
  if (active == 0) return "-";
  return std::to_string(active) + " × NVLink" + (version == kUnknown ? "" : std::to_string(version)) +
         (to_switch > 0 ? " to NVSwitch" : "");
}

std::string pcie(const Gpu& g) {
  if (g.pcie_generation == kUnknown) return "-";
  return "gen " + std::to_string(g.pcie_generation) + " x" + number(g.pcie_lanes);
}

void printTable(const std::vector<std::vector<std::string>>& rows) {
  if (rows.size() > 1) std::printf("\n%s", tableText(rows).c_str());
}

void print(const Inventory& v) {
  std::string cpu = orDash(printable(v.cpu.model));
  if (v.cpu.sockets != kUnknown) cpu += ", " + number(v.cpu.sockets) + (v.cpu.sockets == 1 ? " socket" : " sockets");
  if (v.cpu.cores != kUnknown) cpu += ", " + number(v.cpu.cores) + " cores";
  cpu += ", " + number(v.cpu.threads) + " threads";
  if (v.cpu.numa_nodes != kUnknown) cpu += ", " + number(v.cpu.numa_nodes) + " NUMA";
  std::printf("node     %s, %s\n", printable(v.node).c_str(), printable(v.os).c_str());
  std::printf("CPU      %s\n", cpu.c_str());
  std::printf("memory   %s\n", bytes(v.memory_bytes).c_str());
  if (!v.nvidia_driver.empty())
    std::printf("driver   NVIDIA %s, CUDA %s\n", printable(v.nvidia_driver).c_str(), orDash(v.cuda).c_str());
  if (v.gpus.empty()) std::printf("GPUs     none found\n");

  std::vector<std::vector<std::string>> rows = {{"GPU", "model", "memory", "PCI", "PCIe", "NUMA", "links", "SMs"}};
  for (const Gpu& g : v.gpus) {
    rows.push_back({std::to_string(g.index), printable(g.name) + (g.simulated ? " (simulated)" : ""),
                    bytes(g.memory_bytes), orDash(g.pci), pcie(g), number(g.numa), links(g),
                    number(g.multiprocessors)});
    if (!g.problem.empty()) rows.back()[1] += " [does not respond: " + g.problem + "]";
    for (const MigInstance& m : g.instances) {
      const size_t kind = m.name.rfind("MIG ");  // the model stands in the line above
      const std::string name = kind == std::string::npos ? m.name : m.name.substr(kind + 4);
      rows.push_back({"", "  MIG " + number(m.gpu_instance) + "/" + number(m.compute_instance) + " " + printable(name),
                      bytes(m.memory_bytes), "", "", "", "", number(m.multiprocessors)});
    }
  }
  printTable(rows);
  rows = {{"NIC", "kind", "state", "speed", "PCI", "NUMA", "driver"}};
  for (const Nic& n : v.nics)
    rows.push_back({n.name, n.kind + (n.link_layer.empty() || n.link_layer == "InfiniBand" ? "" : " (RoCE)"),
                    orDash(n.state), speed(n.speed_mbit), orDash(n.pci), number(n.numa), orDash(n.driver)});
  printTable(rows);
  rows = {{"disk", "kind", "size", "model"}};
  for (const Disk& d : v.disks) rows.push_back({d.name, d.kind, bytes(d.size_bytes), orDash(printable(d.model))});
  printTable(rows);
  if (!v.notes.empty()) std::printf("\n");
  for (const std::string& n : v.notes) std::printf("note: %s\n", printable(n).c_str());
}

}  // namespace

void addDevices(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("devices", "Show this machine's GPUs (all vendors), CPUs, NICs and disks");
  addPlaces(command, o->places);
  command.flag("--json", o->json, "Print JSON; null means unknown");
  o->select.add(command);
  o->place.add(command);
  command.footer(
      "With --select, the command samples the GPUs once and prints the best first; GPUs that are not suitable are "
      "listed "
      "with\nthe reason. It fails if fewer are suitable than --count. A GPU is named by its index, or as "
      "NODE:INDEX.\nWith --place, ranks that exchange much get GPUs that are near each other. Rank = tensor index + T "
      "× "
      "(data index +\nD × pipeline index).\n\nExamples:  tracesmith devices --json | jq '.gpus[].name'\n           "
      "tracesmith devices --select "
      "--count 2 --min-memory 8GB --precision bf16 --near 0\n           tracesmith devices --place --tensor 4 "
      "--data 2");
  command.run([o] { return o->select.read(); },
              [o] {
                if (o->select.select) return selectDevices(o->places, o->select.request, o->json);
                if (o->place.place) return placeRanks(o->places, o->place.request, o->json);
                const Inventory inventory = discover(o->places);
                o->json ? static_cast<void>(std::printf("%s\n", inventoryJson(inventory).c_str())) : print(inventory);
                return 0;
              });
}

}  // namespace tracesmith::cli
