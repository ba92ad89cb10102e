#include "hardware/nvidia/gpus.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace tracesmith::hardware {
namespace {

using nvml::Device;
using nvml::Functions;
using nvml::Session;

/// The value of a call that gives one number, or kUnknown.
template <typename Function, typename... Arguments>
int64_t number(const Session& s, Function function, Device d, Arguments... arguments) {
  uint32_t v = 0;
  return s.call(function, d, arguments..., &v) == nvml::kSuccess ? static_cast<int64_t>(v) : kUnknown;
}

std::string text(const Session& s, nvml::Return (*Functions::*function)(Device, char*, uint32_t), Device d) {
  char buffer[128] = "";
  return s.call(function, d, buffer, uint32_t{sizeof buffer}) == nvml::kSuccess ? buffer : "";
}

/// "0-3,8" for a set of CPUs.
std::string cpuList(const unsigned long* words, uint32_t count) {
  std::string out;
  constexpr uint32_t kBits = 8 * sizeof(unsigned long);
  auto in = [&](uint32_t i) { return i < count * kBits && (words[i / kBits] >> (i % kBits) & 1); };
  for (uint32_t i = 0; i < count * kBits; ++i) {
    if (!in(i)) continue;
    uint32_t end = i;
    while (in(end + 1)) ++end;
    out += (out.empty() ? "" : ",") + std::to_string(i) + (end > i ? "-" + std::to_string(end) : "");
    i = end;
  }
  return out;
}

int64_t field(const Session& s, Device d, uint32_t id, uint32_t scope) {
  nvml::FieldValue v{};
  v.field = id;
  v.scope = scope;
  if (s.call(&Functions::fieldValues, d, 1, &v) != nvml::kSuccess || v.result != nvml::kSuccess) return kUnknown;
  return static_cast<int64_t>(nvml::fieldNumber(v));
}

/// Speed of one link: newer drivers know a field for any link, older ones a field each, or one for all.
int64_t linkSpeed(const Session& s, Device d, uint32_t link) {
  if (int64_t v = field(s, d, nvml::kFieldNvLinkSpeed, link); v > 0) return v;
  const uint32_t old = link < 6 ? nvml::kFieldNvLinkSpeedL0 + link : nvml::kFieldNvLinkSpeedL6 + link - 6;
  if (int64_t v = link < 12 ? field(s, d, old, 0) : kUnknown; v > 0) return v;
  int64_t v = field(s, d, nvml::kFieldNvLinkSpeedCommon, 0);
  return v > 0 ? v : kUnknown;
}

void findLinks(const Session& s, Device d, Gpu& gpu) {
  int64_t count = field(s, d, nvml::kFieldNvLinkCount, 0);
  if (count == kUnknown) count = nvml::kMostNvLinks;
  for (uint32_t l = 0; l < std::min<int64_t>(count, nvml::kMostNvLinks); ++l) {
    uint32_t active = 0;
    if (s.call(&Functions::nvlinkState, d, l, &active) != nvml::kSuccess) continue;
    NvLink link;
    link.link = l;
    link.active = active != 0;
    if (link.active) {
      link.version = number(s, &Functions::nvlinkVersion, d, l);
      link.speed_mbps = linkSpeed(s, d, l);
      nvml::PciInfo pci{};
      if (s.call(&Functions::nvlinkRemotePci, d, l, &pci) == nvml::kSuccess) link.remote_pci = pciName(pci);
      const int64_t type = number(s, &Functions::nvlinkRemoteType, d, l);
      link.remote = type == 0   ? NvLink::Remote::gpu
                    : type == 1 ? NvLink::Remote::npu
                    : type == 2 ? NvLink::Remote::nvswitch
                                : NvLink::Remote::unknown;
    }
    gpu.links.push_back(std::move(link));
  }
}

void findInstances(const Session& s, Device d, Gpu& gpu) {
  uint32_t now = 0, pending = 0, most = 0;
  if (s.call(&Functions::migMode, d, &now, &pending) != nvml::kSuccess || now == 0) return;
  gpu.mig = true;
  if (s.call(&Functions::maxMigDevices, d, &most) != nvml::kSuccess) return;
  for (uint32_t i = 0; i < most; ++i) {
    Device m = nullptr;
    if (s.call(&Functions::migHandle, d, i, &m) != nvml::kSuccess) continue;
    MigInstance instance;
    instance.name = text(s, &Functions::name, m);
    instance.uuid = text(s, &Functions::uuid, m);
    instance.gpu_instance = number(s, &Functions::gpuInstanceId, m);
    instance.compute_instance = number(s, &Functions::computeInstanceId, m);
    nvml::Memory memory{};
    if (s.call(&Functions::memory, m, &memory) == nvml::kSuccess)
      instance.memory_bytes = static_cast<int64_t>(memory.total);
    nvml::Attributes attributes{};
    if (s.call(&Functions::attributes, m, &attributes) == nvml::kSuccess)
      instance.multiprocessors = attributes.multiprocessors;
    gpu.instances.push_back(std::move(instance));
  }
}

/// CUDA cores of a multiprocessor.
int64_t coresOf(int64_t major, int64_t minor) {
  return major == 7 || (major == 6 && minor == 0) || (major == 8 && minor == 0) ? 64 : 128;
}

/// Asks a GPU what it is. One that hangs is not asked on: it would keep the others waiting.
void describe(const Session& s, Device d, Gpu& gpu) {
  const auto begin = std::chrono::steady_clock::now();
  auto hangs = [&] {
    if (std::chrono::steady_clock::now() - begin < std::chrono::seconds(2)) return false;
    gpu.problem = "it responds too slowly";
    return true;
  };
  gpu.name = text(s, &Functions::name, d);
  gpu.uuid = text(s, &Functions::uuid, d);
  nvml::PciInfo pci{};
  if (s.call(&Functions::pci, d, &pci) == nvml::kSuccess) gpu.pci = pciName(pci);
  nvml::MemoryV2 v2{};
  v2.version = nvml::kMemoryV2;
  nvml::Memory v1{};
  if (s.call(&Functions::memoryV2, d, &v2) == nvml::kSuccess)
    gpu.memory_bytes = static_cast<int64_t>(v2.total);
  else if (nvml::Return r = s.call(&Functions::memory, d, &v1); r == nvml::kSuccess)
    gpu.memory_bytes = static_cast<int64_t>(v1.total);
  else if (!nvml::never(r))
    gpu.problem = nvml::returnText(r);
  if (hangs()) return;
  int major = 0, minor = 0;
  if (s.call(&Functions::computeCapability, d, &major, &minor) == nvml::kSuccess) {
    gpu.cc_major = major;
    gpu.cc_minor = minor;
  }
  nvml::Attributes attributes{};
  if (s.call(&Functions::attributes, d, &attributes) == nvml::kSuccess)
    gpu.multiprocessors = attributes.multiprocessors;
  else if (int64_t cores = number(s, &Functions::cores, d); cores != kUnknown && gpu.cc_major != kUnknown)
    gpu.multiprocessors = cores / coresOf(gpu.cc_major, gpu.cc_minor);  // only parts of a split GPU have attributes
  gpu.clock_mhz = number(s, &Functions::maxClock, d, 1u);
  gpu.memory_clock_mhz = number(s, &Functions::maxClock, d, 2u);
  if (hangs()) return;
  gpu.bus_bits = number(s, &Functions::busWidth, d);
  gpu.pcie_generation = number(s, &Functions::maxPcieGeneration, d);
  gpu.pcie_lanes = number(s, &Functions::maxPcieLanes, d);
  gpu.pcie_generation_now = number(s, &Functions::pcieGeneration, d);
  gpu.pcie_lanes_now = number(s, &Functions::pcieLanes, d);
  if (int64_t mw = number(s, &Functions::powerLimit, d); mw != kUnknown) gpu.power_limit_watts = mw / 1000;
  unsigned long cpus[64] = {};
  if (s.call(&Functions::cpuAffinity, d, uint32_t{64}, cpus) == nvml::kSuccess) gpu.cpus = cpuList(cpus, 64);
  if (hangs()) return;
  findInstances(s, d, gpu);
  findLinks(s, d, gpu);
  (void)hangs();
}

Nearness nearness(uint32_t level) {
  switch (level) {
    case 0:
      return Nearness::board;
    case 10:
      return Nearness::single_switch;
    case 20:
      return Nearness::switches;
    case 30:
      return Nearness::host_bridge;
    case 40:
      return Nearness::node;
    case 50:
      return Nearness::system;
    default:
      return Nearness::unknown;
  }
}

}  // namespace

std::string pciName(const nvml::PciInfo& pci) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%04x:%02x:%02x.0", pci.domain, pci.bus & 0xff, pci.device & 0x1f);
  return buffer;
}

void findNvidia(const nvml::Session& s, Inventory& inventory) {
  char version[96] = "";
  if (s.call(&Functions::driverVersion, version, uint32_t{sizeof version}) == nvml::kSuccess)
    inventory.nvidia_driver = version;
  int cuda = 0;
  if (s.call(&Functions::cudaVersion, &cuda) == nvml::kSuccess)
    inventory.cuda = std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
  uint32_t count = 0;
  if (nvml::Return r = s.call(&Functions::count, &count); r != nvml::kSuccess) {
    inventory.notes.push_back("NVML does not report the number of GPUs: " + nvml::returnText(r));
    return;
  }
  std::vector<Device> handles;
  for (uint32_t i = 0; i < count; ++i) {
    Gpu gpu;
    gpu.index = static_cast<int32_t>(i);
    gpu.vendor = "nvidia";
    gpu.driver = "nvidia";
    Device d = nullptr;
    const auto begin = std::chrono::steady_clock::now();
    nvml::Return r = s.call(&Functions::handle, i, &d);
    if (r == nvml::kSuccess && std::chrono::steady_clock::now() - begin > std::chrono::seconds(2))
      gpu.problem = "it responds too slowly";
    else if (r == nvml::kSuccess)
      describe(s, d, gpu);
    else
      gpu.problem = nvml::returnText(r);
    if (!gpu.problem.empty())
      inventory.notes.push_back("GPU " + std::to_string(i) + " does not respond: " + gpu.problem);
    handles.push_back(d);
    inventory.gpus.push_back(std::move(gpu));
  }
  for (uint32_t a = 0; a < count; ++a)
    for (uint32_t b = 0; b < count; ++b) {
      if (a == b || !inventory.gpus[a].problem.empty() || !inventory.gpus[b].problem.empty()) continue;
      GpuPair pair;
      pair.a = static_cast<int32_t>(a);
      pair.b = static_cast<int32_t>(b);
      uint32_t level = 0, status = 0;
      if (s.call(&Functions::commonAncestor, handles[a], handles[b], &level) == nvml::kSuccess)
        pair.nearness = nearness(level);
      if (s.call(&Functions::p2pStatus, handles[a], handles[b], 0u, &status) == nvml::kSuccess)
        pair.peer_access = status == 0;
      inventory.pairs.push_back(pair);
    }
}

}  // namespace tracesmith::hardware
