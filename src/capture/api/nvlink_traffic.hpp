// What GPUs send over NVLink, from the links' own counters.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "hardware/sampler.hpp"

namespace tracesmith::capture {

constexpr uint32_t kUnknownGpu = UINT32_MAX;

class NvLinkTraffic : hardware::SampleSink {
 public:
  /// Bytes one GPU sent between two readings of its counters; `to` is kUnknownGpu behind a switch. Times are raw ns.
  using Take = std::function<void(uint32_t from, uint32_t to, uint64_t bytes, int64_t from_ns, int64_t to_ns)>;

  /// `gpu_of_pci`: the program's numbers of GPUs, by "0000:18:00.0". `simulated`: this many simulated GPUs instead, by
  /// index.
  NvLinkTraffic(std::map<std::string, uint32_t> gpu_of_pci, uint32_t simulated, int period_ms, Take take);
  /// After that, `take` is not called any more.
  ~NvLinkTraffic() override;

 private:
  struct Gpu {
    uint32_t number = kUnknownGpu;
    std::map<std::string, uint32_t> remote;  // by link: "" where the counter is for all of them
  };
  struct Reading {
    int64_t ts_ns;
    double bytes;
  };
  void inventory(const hardware::Inventory& inventory) override;
  void samples(std::span<const hardware::Sample> samples) override;

  const std::map<std::string, uint32_t> gpu_of_pci_;
  const bool simulated_;
  const Take take_;
  std::map<int32_t, Gpu> gpus_;                              // by index of the inventory
  std::map<std::pair<int32_t, std::string>, Reading> last_;  // by index and link
  std::unique_ptr<hardware::Sampler> sampler_;
};

}  // namespace tracesmith::capture
