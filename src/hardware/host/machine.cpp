#include "hardware/host/machine.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "hardware/sysfs.hpp"

namespace tracesmith::hardware {
namespace {

std::string orEmpty(std::optional<std::string> s) { return s ? *s : ""; }
int64_t orUnknown(std::optional<int64_t> v) { return v && *v >= 0 ? *v : kUnknown; }

void findCpu(const std::string& root, Cpu& cpu) {
  utsname names{};
  if (::uname(&names) == 0) cpu.architecture = names.machine;
  std::string text = orEmpty(readText(root + "/proc/cpuinfo"));  // the first CPUs are enough for the model
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = nextLine(rest);
    size_t colon = line.find(": ");
    if (colon == std::string_view::npos) continue;
    if (cpu.model.empty() && (line.starts_with("model name") || line.starts_with("Model") || line.starts_with("cpu\t")))
      cpu.model = std::string(line.substr(colon + 2));
  }
  const std::string cpus = root + "/sys/devices/system/cpu/";
  std::set<std::pair<int64_t, int64_t>> cores;
  std::set<int64_t> sockets;
  int64_t threads = 0;
  for (const std::string& name : listFolder(cpus)) {
    if (!name.starts_with("cpu") || name.size() < 4 || name[3] < '0' || name[3] > '9') continue;
    if (readNumber(cpus + name + "/online").value_or(1) == 0) continue;
    ++threads;
    std::optional<int64_t> core = readNumber(cpus + name + "/topology/core_id"),
                           socket = readNumber(cpus + name + "/topology/physical_package_id");
    if (socket) sockets.insert(*socket);
    if (core && socket) cores.insert({*socket, *core});
  }
  if (threads > 0) cpu.threads = threads;
  if (!cores.empty()) cpu.cores = static_cast<int64_t>(cores.size());
  if (!sockets.empty()) cpu.sockets = static_cast<int64_t>(sockets.size());
  if (std::optional<int64_t> khz = readNumber(cpus + "cpu0/cpufreq/cpuinfo_max_freq")) cpu.max_mhz = *khz / 1000;
  int64_t nodes = 0;
  for (const std::string& name : listFolder(root + "/sys/devices/system/node")) {
    if (name.starts_with("node") && name.size() > 4 && name[4] >= '0' && name[4] <= '9') ++nodes;
  }
  if (nodes > 0) cpu.numa_nodes = nodes;
}

/// "400 Gb/sec (4X NDR)" → 400000.
int64_t rateMbit(std::string_view text) {
  std::string number(nextWord(text));
  double v = std::strtod(number.c_str(), nullptr);
  return v > 0 ? static_cast<int64_t>(v * 1000) : kUnknown;
}

void findNics(const std::string& root, std::vector<Nic>& nics) {
  const std::string rdma = root + "/sys/class/infiniband/";
  for (const std::string& device : listFolder(rdma)) {
    for (const std::string& port : listFolder(rdma + device + "/ports")) {
      const std::string folder = rdma + device + "/ports/" + port + "/";
      Nic nic;
      nic.name = device + (port == "1" ? "" : ":" + port);
      nic.kind = "infiniband";
      nic.link_layer = orEmpty(readText(folder + "link_layer"));
      std::string state = orEmpty(readText(folder + "state"));  // "4: ACTIVE"
      nic.state = state.find("ACTIVE") != std::string::npos ? "up" : state.empty() ? "" : "down";
      nic.speed_mbit = rateMbit(orEmpty(readText(folder + "rate")));
      nic.numa = orUnknown(readNumber(rdma + device + "/device/numa_node"));
      nic.pci = orEmpty(linkTarget(rdma + device + "/device"));
      nic.driver = orEmpty(linkTarget(rdma + device + "/device/driver"));
      for (const std::string& name : listFolder(rdma + device + "/device/net"))
        nic.interfaces += (nic.interfaces.empty() ? "" : ",") + name;
      nics.push_back(std::move(nic));
    }
  }
  const std::string net = root + "/sys/class/net/";
  for (const std::string& name : listFolder(net)) {
    if (name == "lo" || !realPath(net + name + "/device")) continue;  // virtual interfaces have no device
    Nic nic;
    nic.name = name;
    nic.kind = "ethernet";
    nic.state = orEmpty(readText(net + name + "/operstate"));
    nic.speed_mbit = orUnknown(readNumber(net + name + "/speed"));
    nic.numa = orUnknown(readNumber(net + name + "/device/numa_node"));
    nic.pci = orEmpty(linkTarget(net + name + "/device"));
    nic.driver = orEmpty(linkTarget(net + name + "/device/driver"));
    nics.push_back(std::move(nic));
  }
}

void findDisks(const std::string& root, std::vector<Disk>& disks) {
  for (const std::string& name : listFolder(root + "/sys/block")) {
    if (!isDisk(root, name)) continue;
    const std::string folder = root + "/sys/block/" + name + "/";
    Disk disk;
    disk.name = name;
    disk.model = orEmpty(readText(folder + "device/model"));
    if (std::optional<int64_t> sectors = readNumber(folder + "size")) disk.size_bytes = *sectors * 512;
    disk.kind = name.starts_with("nvme")                                   ? "nvme"
                : name.starts_with("vd") || name.starts_with("xvd")        ? "virtual"
                : readNumber(folder + "queue/rotational").value_or(0) != 0 ? "hdd"
                                                                           : "ssd";
    disks.push_back(std::move(disk));
  }
}

/// PCI bridges above a device, outermost first: "pci0000:16", "0000:16:01.0", …
std::vector<std::string> pciPath(const std::string& root, const std::string& pci) {
  std::vector<std::string> parts;
  std::optional<std::string> real = realPath(root + "/sys/bus/pci/devices/" + pci);
  if (!real) return parts;
  size_t at = real->find("/pci");
  while (at != std::string::npos) {
    size_t next = real->find('/', at + 1);
    parts.push_back(real->substr(at + 1, next == std::string::npos ? next : next - at - 1));
    at = next;
  }
  return parts;
}

int64_t numaOf(const std::string& root, const std::string& pci) {
  return orUnknown(readNumber(root + "/sys/bus/pci/devices/" + pci + "/numa_node"));
}

Nearness nearnessOf(const std::string& root, const std::string& a, const std::string& b) {
  std::vector<std::string> x = pciPath(root, a), y = pciPath(root, b);
  if (x.empty() || y.empty()) return Nearness::unknown;
  size_t common = 0;
  while (common < std::min(x.size(), y.size()) && x[common] == y[common]) ++common;
  if (common == x.size() && common == y.size()) return Nearness::self;
  // Below the last common bridge of each: how many bridges of a switch lie between.
  if (common >= 2)
    return x.size() - common <= 2 && y.size() - common <= 2 ? Nearness::single_switch : Nearness::switches;
  if (common == 1) return Nearness::host_bridge;
  const int64_t na = numaOf(root, a), nb = numaOf(root, b);
  return na != kUnknown && na == nb ? Nearness::node : Nearness::system;
}

}  // namespace

bool isDisk(const std::string& root, const std::string& name) {
  for (const char* virtual_name : {"loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd"})
    if (name.starts_with(virtual_name)) return false;
  return readNumber(root + "/sys/block/" + name + "/size").value_or(0) > 0;
}

void findMachine(const std::string& root, Inventory& inventory) {
  utsname names{};
  if (::uname(&names) == 0) inventory.os = std::string(names.sysname) + " " + names.release;
  std::string release = orEmpty(readText(root + "/etc/os-release"));
  std::string_view rest = release;
  while (!rest.empty()) {
    std::string_view line = nextLine(rest);
    if (line.starts_with("PRETTY_NAME=\"") && line.size() > 14)
      inventory.os = std::string(line.substr(13, line.size() - 14)) + ", " + inventory.os;
  }
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) == 0) inventory.hostname = host;
  if (!root.empty())
    if (std::optional<std::string> name = readText(root + "/proc/sys/kernel/hostname")) inventory.hostname = *name;
  inventory.boot = orEmpty(readText(root + "/proc/sys/kernel/random/boot_id"));
  findCpu(root, inventory.cpu);
  std::string memory = orEmpty(readText(root + "/proc/meminfo"));
  if (memory.starts_with("MemTotal:"))
    if (std::optional<int64_t> kib = firstNumber(std::string_view(memory).substr(9)))
      inventory.memory_bytes = *kib * 1024;
  findNics(root, inventory.nics);
  findDisks(root, inventory.disks);
}

void findNearness(const std::string& root, Inventory& inventory) {
  for (Gpu& gpu : inventory.gpus) {
    if (gpu.simulated || gpu.pci.empty()) continue;
    if (gpu.numa == kUnknown) gpu.numa = numaOf(root, gpu.pci);
    if (gpu.cpus.empty()) gpu.cpus = orEmpty(readText(root + "/sys/bus/pci/devices/" + gpu.pci + "/local_cpulist"));
    for (const Nic& nic : inventory.nics)
      if (nic.pci.find(':') != std::string::npos)
        inventory.nic_nearness.push_back({gpu.index, nic.name, nearnessOf(root, gpu.pci, nic.pci)});
    for (const Gpu& other : inventory.gpus)
      if (other.index != gpu.index && !other.simulated && !other.pci.empty() && !inventory.pair(gpu.index, other.index))
        inventory.pairs.push_back({gpu.index, other.index, nearnessOf(root, gpu.pci, other.pci), kUnknown});
  }
}

}  // namespace tracesmith::hardware
