#include "hardware/sources.hpp"

#include <algorithm>
#include <set>

#include "hardware/drm/sources.hpp"
#include "hardware/host/sources.hpp"
#include "hardware/nvidia/source.hpp"
#include "hardware/sim/gpus.hpp"
#include "hardware/sysfs.hpp"

namespace tracesmith::hardware {
namespace {

class Maker : public SourceMaker {
 public:
  explicit Maker(const SamplerOptions& o)
      : places_(o.places), fields_(o.nvml_fields), nvml_(std::make_shared<NvmlPool>(o.places.nvml)) {}

  Inventory look() override {
    Inventory inventory = discover(places_);
    known_ = count();
    return inventory;
  }

  bool changed() override { return count() != known_; }

  std::vector<KeyedSource> hostSources() override { return hardware::hostSources(places_.root); }

  std::vector<KeyedSource> gpuSources(const Inventory& inventory) override {
    std::vector<KeyedSource> sources;
    bool nvidia = false;
    for (const Gpu& gpu : inventory.gpus) {
      std::unique_ptr<Source> source;
      if (gpu.simulated)
        source = simulatedSource(gpu);
      else if (gpu.vendor == "nvidia" && gpu.driver == "nvidia")
        source = nvidiaSource(nvml_, gpu, fields_);
      else
        source = drmSource(places_.root, gpu);
      nvidia |= gpu.vendor == "nvidia" && !gpu.simulated;
      if (source) sources.push_back({gpuKey(gpu), std::move(source)});
    }
    if (nvidia) sources.push_back({"nvidia events", nvidiaEventSource(nvml_, inventory)});
    return sources;
  }

 private:
  /// How many GPUs there are, as far as that is quickly said.
  std::pair<int64_t, size_t> count() {
    if (places_.simulated_gpus > 0) return {};
    std::pair<int64_t, size_t> out{-1, 0};
    if (std::shared_ptr<nvml::Session> nvml; nvml_->get(nvml)) {
      uint32_t n = 0;
      if (nvml->call(&nvml::Functions::count, &n) == nvml::kSuccess)
        out.first = n;
      else
        nvml_->broken(nvml);
    }
    out.second = listFolder(places_.root + "/sys/class/drm").size();
    return out;
  }

  Places places_;
  std::vector<std::string> fields_;
  std::shared_ptr<NvmlPool> nvml_;  // shared with the sources, one of which may hang longer than the sampler lives
  std::pair<int64_t, size_t> known_;
};

}  // namespace

std::unique_ptr<SourceMaker> SourceMaker::create(const SamplerOptions& options) {
  return std::make_unique<Maker>(options);
}

std::string gpuKey(const Gpu& gpu) {
  if (!gpu.uuid.empty()) return gpu.uuid;
  if (!gpu.pci.empty()) return gpu.vendor + " " + gpu.pci;
  return gpu.vendor + " " + std::to_string(gpu.index);
}

void keepIndexes(Inventory& inventory, std::map<std::string, int32_t>& index_of) {
  std::set<int32_t> taken;
  for (const auto& [key, index] : index_of) taken.insert(index);
  std::map<int32_t, int32_t> renamed;
  for (Gpu& gpu : inventory.gpus) {
    const int32_t was = gpu.index;
    if (auto known = index_of.find(gpuKey(gpu)); known != index_of.end()) {
      gpu.index = known->second;
    } else {
      while (taken.contains(gpu.index)) ++gpu.index;
      taken.insert(gpu.index);
      index_of[gpuKey(gpu)] = gpu.index;
    }
    renamed[was] = gpu.index;
  }
  for (GpuPair& p : inventory.pairs) {
    p.a = renamed[p.a];
    p.b = renamed[p.b];
  }
  for (NicNearness& n : inventory.nic_nearness) n.gpu = renamed[n.gpu];
}

}  // namespace tracesmith::hardware
