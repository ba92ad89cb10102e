// What a node is made of. Numbers that are not known are kUnknown, texts that are not known are empty.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tracesmith::hardware {

constexpr int64_t kUnknown = -1;

/// One NVLink of a GPU, as NVML describes it.
struct NvLink {
  enum class Remote : uint8_t { gpu, npu, nvswitch, unknown };
  uint32_t link = 0;
  bool active = false;
  int64_t version = kUnknown;     ///< 1 … 5
  int64_t speed_mbps = kUnknown;  ///< MB/s in each direction, as read
  Remote remote = Remote::unknown;
  std::string remote_pci;
};

/// A part of a GPU that is split with MIG.
struct MigInstance {
  int64_t gpu_instance = kUnknown, compute_instance = kUnknown;
  std::string name, uuid;
  int64_t memory_bytes = kUnknown, multiprocessors = kUnknown;
};

struct Gpu {
  int32_t index = -1;  ///< on the node: NVIDIA's GPUs first, in NVML's order
  std::string vendor;  ///< nvidia, amd, intel, qualcomm, apple, simulated, …
  std::string name, uuid, driver;
  std::string pci;      ///< "0000:18:00.0"
  std::string problem;  ///< why it could not be asked
  bool simulated = false;
  int64_t memory_bytes = kUnknown;
  int64_t cc_major = kUnknown, cc_minor = kUnknown, multiprocessors = kUnknown;
  int64_t clock_mhz = kUnknown, memory_clock_mhz = kUnknown, bus_bits = kUnknown;
  int64_t numa = kUnknown;
  std::string cpus;                                                   ///< nearest CPUs: "0-47,96-143"
  int64_t pcie_generation = kUnknown, pcie_lanes = kUnknown;          ///< the most both ends can do
  int64_t pcie_generation_now = kUnknown, pcie_lanes_now = kUnknown;  ///< a GPU at rest may go down
  int64_t power_limit_watts = kUnknown;
  bool mig = false;
  std::vector<MigInstance> instances;
  std::vector<NvLink> links;
};

/// How near two GPUs, or a GPU and a NIC, are on PCIe. In the order of nvidia-smi's topo -m, nearest first.
enum class Nearness : uint8_t { self, board, single_switch, switches, host_bridge, node, system, unknown };
/// "X", "PSB", "PIX", "PXB", "PHB", "NODE", "SYS", "?".
const char* nearnessName(Nearness n);

struct GpuPair {
  int32_t a = 0, b = 0;
  Nearness nearness = Nearness::unknown;
  int64_t peer_access = kUnknown;  ///< 1: a can read b's memory
};

struct Nic {
  std::string name, kind;         ///< eth0, ethernet; mlx5_0, infiniband
  std::string state, link_layer;  ///< up, down; InfiniBand, Ethernet
  std::string pci, driver, interfaces;
  int64_t speed_mbit = kUnknown;
  int64_t numa = kUnknown;
};

struct NicNearness {
  int32_t gpu = 0;
  std::string nic;
  Nearness nearness = Nearness::unknown;
};

struct Disk {
  std::string name, model, kind;  ///< nvme, ssd, hdd, virtual
  int64_t size_bytes = kUnknown;
};

struct Cpu {
  std::string model, architecture;
  int64_t sockets = kUnknown, cores = kUnknown, threads = kUnknown, numa_nodes = kUnknown, max_mhz = kUnknown;
};

struct Inventory {
  std::string node, hostname, os, boot;
  std::string nvidia_driver, cuda;  ///< "580.95.05", "13.0"
  Cpu cpu;
  int64_t memory_bytes = kUnknown;
  std::vector<Gpu> gpus;
  std::vector<GpuPair> pairs;
  std::vector<Nic> nics;
  std::vector<NicNearness> nic_nearness;
  std::vector<Disk> disks;
  std::vector<std::string> notes;  ///< what could not be found out, and why

  const Gpu* gpu(int32_t index) const;
  const GpuPair* pair(int32_t a, int32_t b) const;
};

/// Where to look for hardware.
struct Places {
  std::string root;        ///< before /sys, /proc and /dev: /host in a container; empty: this machine
  std::string nvml;        ///< NVIDIA's management library; empty: libnvidia-ml.so.1
  int simulated_gpus = 0;  ///< simulated GPUs, instead of those of this machine
  std::string node;        ///< name of this node; empty: its host name

  /// Defaults, overridden by TRACESMITH_ROOT, TRACESMITH_NVML and TRACESMITH_SIM_GPUS.
  static Places fromEnvironment();
};

/// Looks at everything once. What cannot be asked is a note, never a failure. May take as long as a driver call hangs.
Inventory discover(const Places& places);

std::string inventoryJson(const Inventory& inventory);

}  // namespace tracesmith::hardware
