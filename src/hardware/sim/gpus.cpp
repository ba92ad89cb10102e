#include "hardware/sim/gpus.hpp"

#include <cmath>
#include <cstdio>

#include "tracesmith/trace/schema.hpp"

namespace tracesmith::hardware {
namespace {

constexpr int64_t kMemory = 80ll << 30;
constexpr int kLinks = 18;

class SimulatedGpu : public Source {
 public:
  explicit SimulatedGpu(const Gpu& gpu)
      : Source("simulated gpu " + std::to_string(gpu.index), gpu.index, kAllRates),
        state_(0x9e3779b97f4a7c15ull * static_cast<uint64_t>(gpu.index + 1)) {}

  Status read(Rate rate, Batch& out) override {
    const double t = static_cast<double>(out.tsNs()) * 1e-9;
    advance(t);
    if (rate == Rate::fast) {
      out.add(Metric::gpu_utilization_percent, std::round(100 * busy_));
      out.add(Metric::gpu_memory_utilization_percent, std::round(62 * busy_));
      out.add(Metric::gpu_power_watts, power_);
      out.add(Metric::gpu_temperature_celsius, std::round(temperature_));
      out.add(Metric::gpu_sm_clock_mhz, hot() ? 1410 : 1980);
      out.add(Metric::gpu_memory_clock_mhz, 2619);
      out.add(Metric::gpu_throttle_reasons, hot() ? 0x20 : 0);
      out.add(Metric::gpu_memory_used_bytes, busy_ > 0 ? 0.81 * kMemory : 0.01 * kMemory);
      out.add(Metric::gpu_nvlink_tx_bytes, nvlink_);
      out.add(Metric::gpu_nvlink_rx_bytes, nvlink_);
      out.add(Metric::gpu_pcie_tx_bytes, pcie_);
      out.add(Metric::gpu_pcie_rx_bytes, pcie_ * 1.7);
    } else if (rate == Rate::slow) {
      out.add(Metric::gpu_sm_activity_percent, 88 * busy_);
      out.add(Metric::gpu_sm_occupancy_percent, 34 * busy_);
      out.add(Metric::gpu_tensor_activity_percent, 47 * busy_);
      out.add(Metric::gpu_dram_activity_percent, 51 * busy_);
      out.add(Metric::gpu_memory_temperature_celsius, std::round(temperature_ + 9));
    } else {
      out.add(Metric::gpu_energy_joules, energy_);
      out.add(Metric::gpu_power_limit_watts, 700);
      out.add(Metric::gpu_memory_total_bytes, kMemory);
      out.add(Metric::gpu_ecc_corrected, 0);
      out.add(Metric::gpu_ecc_uncorrected, 0);
    }
    return {};
  }

 private:
  bool hot() const { return device() == 3 && temperature_ > 84; }

  double random() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }

  void advance(double t) {
    const double dt = last_ == 0 ? 0 : t - last_;
    if (last_ != 0 && dt <= 0) return;
    last_ = t;
    const double phase = std::fmod(t, 60.0);  // a minute: 48 s of training, 12 s in which data is loaded
    busy_ = phase < 48 ? 0.94 + 0.05 * random() : 0.02 * random();
    power_ = 90 + 560 * busy_ + 20 * random();
    const double target = 30 + power_ * (device() == 3 ? 0.095 : 0.062);
    temperature_ += (target - temperature_) * std::min(1.0, dt / 20);
    energy_ += power_ * dt;
    nvlink_ += busy_ * 120e9 * dt;
    pcie_ += busy_ * 3e9 * dt;
  }

  uint64_t state_;
  double last_ = 0, busy_ = 0, power_ = 90, temperature_ = 34, energy_ = 0, nvlink_ = 0, pcie_ = 0;
};

}  // namespace

void findSimulated(int count, Inventory& inventory) {
  for (int i = 0; i < count; ++i) {
    Gpu g;
    g.index = i;
    g.vendor = trace::kSimulated;
    g.name = "Simulated H100";  // as in recordings of simulated ranks
    char text[64];
    std::snprintf(text, sizeof text, "SIM-%08x-0000-0000-0000-%012x", 0x51u, i);
    g.uuid = text;
    std::snprintf(text, sizeof text, "0000:%02x:00.0", 0x18 + i % 200);
    g.pci = text;
    g.simulated = true;
    g.memory_bytes = kMemory;
    g.cc_major = 9;
    g.cc_minor = 0;
    g.multiprocessors = 132;
    g.clock_mhz = 1980;
    g.memory_clock_mhz = 2619;
    g.bus_bits = 5120;
    g.numa = i % 8 / 4;
    g.pcie_generation = g.pcie_generation_now = 5;
    g.pcie_lanes = g.pcie_lanes_now = 16;
    g.power_limit_watts = 700;
    for (uint32_t l = 0; l < kLinks; ++l) {
      NvLink link;
      link.link = l;
      link.active = true;
      link.version = 4;
      link.speed_mbps = 26562;
      link.remote = NvLink::Remote::nvswitch;
      link.remote_pci = "0000:0" + std::to_string(5 + l % 4) + ":00.0";
      g.links.push_back(link);
    }
    inventory.gpus.push_back(std::move(g));
  }
  for (int a = 0; a < count; ++a)
    for (int b = 0; b < count; ++b)
      if (a != b) inventory.pairs.push_back({a, b, a % 8 / 4 == b % 8 / 4 ? Nearness::node : Nearness::system, 1});
}

std::unique_ptr<Source> simulatedSource(const Gpu& gpu) { return std::make_unique<SimulatedGpu>(gpu); }

}  // namespace tracesmith::hardware
