#include "capture/api/nvlink_traffic.hpp"

#include <cmath>

namespace tracesmith::capture {

using namespace hardware;

NvLinkTraffic::NvLinkTraffic(std::map<std::string, uint32_t> gpu_of_pci, uint32_t simulated, int period_ms, Take take)
    : gpu_of_pci_(std::move(gpu_of_pci)), simulated_(simulated > 0), take_(std::move(take)) {
  SamplerOptions options;
  options.places = Places::fromEnvironment();
  if (simulated_) options.places.simulated_gpus = static_cast<int>(simulated);
  options.host = false;
  options.fast_ms = options.slow_ms = period_ms;
  sampler_ = std::make_unique<Sampler>(options, static_cast<SampleSink&>(*this));
  sampler_->start();
}

NvLinkTraffic::~NvLinkTraffic() { sampler_->stop(); }

void NvLinkTraffic::inventory(const Inventory& inventory) {
  gpus_.clear();
  auto numberOf = [&](const std::string& pci) {
    auto it = gpu_of_pci_.find(pci);
    return it == gpu_of_pci_.end() ? kUnknownGpu : it->second;
  };
  for (const hardware::Gpu& g : inventory.gpus) {
    Gpu& gpu = gpus_[g.index];
    gpu.number = simulated_ ? static_cast<uint32_t>(g.index) : numberOf(g.pci);
    bool first = true;
    for (const NvLink& l : g.links) {
      if (!l.active) continue;
      const uint32_t remote = numberOf(l.remote_pci);
      gpu.remote["link " + std::to_string(l.link)] = remote;
      uint32_t& all = gpu.remote[""];
      all = first || all == remote ? remote : kUnknownGpu;
      first = false;
    }
  }
}

void NvLinkTraffic::samples(std::span<const Sample> samples) {
  static const MetricInfo& sent = metricInfo(Metric::gpu_nvlink_tx_bytes);
  for (const Sample& s : samples) {
    if (s.metric != &sent || std::isnan(s.value)) continue;
    auto gpu = gpus_.find(s.device);
    if (gpu == gpus_.end() || gpu->second.number == kUnknownGpu) continue;
    const std::string link(s.part);
    auto [last, first] = last_.try_emplace({s.device, link}, Reading{s.ts_ns, s.value});
    if (!first && s.value > last->second.bytes) {
      auto remote = gpu->second.remote.find(link);
      take_(gpu->second.number, remote == gpu->second.remote.end() ? kUnknownGpu : remote->second,
            static_cast<uint64_t>(s.value - last->second.bytes), last->second.ts_ns, s.ts_ns);
    }
    last->second = {s.ts_ns, s.value};
  }
}

}  // namespace tracesmith::capture
