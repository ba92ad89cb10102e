// What this machine can really do, measured: repeated, with its spread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hardware/capability.hpp"
#include "hardware/inventory.hpp"

namespace tracesmith::hardware {

struct BenchOptions {
  int repetitions = 5;
  double seconds = 0.3;              ///< of one repetition, about
  std::string dir;                   ///< where the disk is measured
  uint64_t disk_bytes = 256u << 20;  ///< written and read there
  std::string peer;                  ///< host:port of a `tracesmith bench serve`; empty: loopback only
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

/// A figure from the results of repetitions: median, smallest, largest.
Figure figure(std::string name, std::string unit, std::string part, std::vector<double> results, std::string how);

void benchCpu(const BenchOptions& options, Capability& out);
void benchMemory(const BenchOptions& options, Capability& out);
void benchDisk(const BenchOptions& options, Capability& out);
void benchNetwork(const BenchOptions& options, Capability& out);
/// Copies and matrix products of each GPU.
void benchGpus(const BenchOptions& options, const Inventory& inventory, Capability& out);
/// Copies between each ordered pair of GPUs, and between each GPU and the host.
Status benchLinks(const BenchOptions& options, const Inventory& inventory, Capability& out);

/// Answers peers that measure the network, until `stop` says so. `port` 0: any; `ready` is told which.
Status serveNetwork(const std::string& address, int port, const std::function<void(int port)>& ready,
                    const std::function<bool()>& stop);

}  // namespace tracesmith::hardware
