// Telemetry of the host: CPUs, memory, disks, network, RDMA ports, and what the kernel says about GPUs.
#pragma once

#include "hardware/sources.hpp"

namespace tracesmith::hardware {

std::vector<KeyedSource> hostSources(const std::string& root);

std::unique_ptr<Source> cpuSource(const std::string& root);
std::unique_ptr<Source> memorySource(const std::string& root);
std::unique_ptr<Source> diskSource(const std::string& root);
std::unique_ptr<Source> networkSource(const std::string& root);
std::unique_ptr<Source> rdmaSource(const std::string& root);
/// Of the counters in rdma_errors: whether one tells that the network was full; the others count errors.
bool tellsOfCongestion(std::string_view counter);
std::unique_ptr<Source> kernelLogSource(const std::string& root);

/// True for a line of the kernel's log that is about a GPU, its driver or its links.
bool aboutGpus(std::string_view line);

}  // namespace tracesmith::hardware
