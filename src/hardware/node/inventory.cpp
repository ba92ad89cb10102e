#include "hardware/inventory.hpp"

#include <cstdlib>
#include <map>

#include "base/text.hpp"
#include "hardware/host/machine.hpp"
#include "hardware/node/drm_gpus.hpp"
#include "hardware/nvidia/gpus.hpp"
#include "hardware/sim/gpus.hpp"

namespace tracesmith::hardware {

const char* nearnessName(Nearness n) {
  static constexpr const char* kNames[] = {"X", "PSB", "PIX", "PXB", "PHB", "NODE", "SYS", "?"};
  return kNames[static_cast<size_t>(n)];
}

const Gpu* Inventory::gpu(int32_t index) const {
  for (const Gpu& g : gpus)
    if (g.index == index) return &g;
  return nullptr;
}

const GpuPair* Inventory::pair(int32_t a, int32_t b) const {
  for (const GpuPair& p : pairs)
    if (p.a == a && p.b == b) return &p;
  return nullptr;
}

Places Places::fromEnvironment() {
  Places places;
  if (const char* root = std::getenv("TRACESMITH_ROOT")) places.root = root;
  if (const char* nvml = std::getenv("TRACESMITH_NVML")) places.nvml = nvml;
  int64_t count = 0;
  if (const char* sim = std::getenv("TRACESMITH_SIM_GPUS"); sim && parseInt(sim, count) && count > 0 && count <= 1024)
    places.simulated_gpus = static_cast<int>(count);
  return places;
}

Inventory discover(const Places& places) {
  Inventory inventory;
  findMachine(places.root, inventory);
  inventory.node = places.node.empty() ? inventory.hostname : places.node;
  if (places.simulated_gpus > 0) {
    findSimulated(places.simulated_gpus, inventory);
    return inventory;
  }
  if (Result<std::shared_ptr<nvml::Session>> nvml = nvml::Session::open(places.nvml); nvml)
    findNvidia(**nvml, inventory);
  else
    inventory.notes.push_back(nvml.status().message());
  findDrm(places.root, inventory);
  findNearness(places.root, inventory);
  return inventory;
}

namespace {

void number(JsonWriter& w, const char* key, int64_t v) { v == kUnknown ? w.key(key).null() : w.key(key).value(v); }

void text(JsonWriter& w, const char* key, const std::string& v) { v.empty() ? w.key(key).null() : w.key(key).value(v); }

const char* remoteName(NvLink::Remote remote) {
  static constexpr const char* kNames[] = {"gpu", "npu", "nvswitch", "unknown"};
  return kNames[static_cast<size_t>(remote)];
}

void gpuJson(JsonWriter& w, const Gpu& g) {
  w.beginObject().field("index", static_cast<int64_t>(g.index)).field("vendor", g.vendor);
  text(w, "name", g.name);
  text(w, "uuid", g.uuid);
  text(w, "pci", g.pci);
  text(w, "driver", g.driver);
  w.field("simulated", g.simulated);
  text(w, "problem", g.problem);
  number(w, "memory_bytes", g.memory_bytes);
  number(w, "compute_capability_major", g.cc_major);
  number(w, "compute_capability_minor", g.cc_minor);
  number(w, "multiprocessors", g.multiprocessors);
  number(w, "clock_mhz", g.clock_mhz);
  number(w, "memory_clock_mhz", g.memory_clock_mhz);
  number(w, "bus_bits", g.bus_bits);
  number(w, "numa", g.numa);
  text(w, "cpus", g.cpus);
  number(w, "pcie_generation", g.pcie_generation);
  number(w, "pcie_lanes", g.pcie_lanes);
  number(w, "pcie_generation_now", g.pcie_generation_now);
  number(w, "pcie_lanes_now", g.pcie_lanes_now);
  number(w, "power_limit_watts", g.power_limit_watts);
  w.field("mig", g.mig).key("mig_instances").beginArray();
  for (const MigInstance& m : g.instances) {
    w.beginObject();
    text(w, "name", m.name);
    text(w, "uuid", m.uuid);
    number(w, "gpu_instance", m.gpu_instance);
    number(w, "compute_instance", m.compute_instance);
    number(w, "memory_bytes", m.memory_bytes);
    number(w, "multiprocessors", m.multiprocessors);
    w.endObject();
  }
  w.endArray().key("nvlinks").beginArray();
  for (const NvLink& l : g.links) {
    w.beginObject().field("link", static_cast<int64_t>(l.link)).field("active", l.active);
    number(w, "version", l.version);
    number(w, "speed_mbps", l.speed_mbps);
    w.field("remote", remoteName(l.remote));
    text(w, "remote_pci", l.remote_pci);
    w.endObject();
  }
  w.endArray().endObject();
}

}  // namespace

std::string inventoryJson(const Inventory& v) {
  std::string out;
  JsonWriter w(out);
  w.beginObject().field("node", v.node);
  text(w, "hostname", v.hostname);
  text(w, "os", v.os);
  text(w, "boot", v.boot);
  text(w, "nvidia_driver", v.nvidia_driver);
  text(w, "cuda", v.cuda);
  number(w, "memory_bytes", v.memory_bytes);
  w.key("cpu").beginObject();
  text(w, "model", v.cpu.model);
  text(w, "architecture", v.cpu.architecture);
  number(w, "sockets", v.cpu.sockets);
  number(w, "cores", v.cpu.cores);
  number(w, "threads", v.cpu.threads);
  number(w, "numa_nodes", v.cpu.numa_nodes);
  number(w, "max_mhz", v.cpu.max_mhz);
  w.endObject().key("gpus").beginArray();
  for (const Gpu& g : v.gpus) gpuJson(w, g);
  w.endArray().key("nics").beginArray();
  for (const Nic& n : v.nics) {
    w.beginObject().field("name", n.name).field("kind", n.kind);
    text(w, "state", n.state);
    text(w, "link_layer", n.link_layer);
    number(w, "speed_mbit", n.speed_mbit);
    text(w, "pci", n.pci);
    text(w, "driver", n.driver);
    text(w, "interfaces", n.interfaces);
    number(w, "numa", n.numa);
    w.endObject();
  }
  w.endArray().key("nic_nearness").beginArray();
  for (const NicNearness& n : v.nic_nearness)
    w.beginObject()
        .field("gpu", static_cast<int64_t>(n.gpu))
        .field("nic", n.nic)
        .field("nearness", nearnessName(n.nearness))
        .endObject();
  w.endArray().key("disks").beginArray();
  for (const Disk& d : v.disks) {
    w.beginObject().field("name", d.name).field("kind", d.kind);
    text(w, "model", d.model);
    number(w, "size_bytes", d.size_bytes);
    w.endObject();
  }
  w.endArray().key("notes").beginArray();
  for (const std::string& note : v.notes) w.value(note);
  w.endArray().endObject();
  return out;
}

}  // namespace tracesmith::hardware
