#include "hardware/nvidia/source.hpp"

#include <array>
#include <deque>

#include "hardware/nvidia/gpus.hpp"

namespace tracesmith::hardware {
namespace {

using nvml::Device;
using nvml::Functions;
using nvml::Return;

/// A field that is read every time, and what becomes of it.
struct WatchedField {
  const MetricInfo* metric;
  uint32_t field, scope;
  std::string part;
  double scale;
  Counter counter{};
  bool never = false;
};

class NvidiaGpu : public Source {
 public:
  NvidiaGpu(std::shared_ptr<NvmlPool> pool, const Gpu& gpu, const std::vector<std::string>& fields)
      : Source("nvidia gpu " + std::to_string(gpu.index), gpu.index, kAllRates), pool_(std::move(pool)), gpu_(gpu) {
    auto watch = [&](std::vector<WatchedField>& list, Metric m, uint32_t field, uint32_t scope, std::string part,
                     double scale) {
      list.push_back({&metricInfo(m), field, scope, std::move(part), scale});
    };
    watch(fast_, Metric::gpu_pcie_tx_bytes, nvml::kFieldPcieTxBytes, 0, "", 1);
    watch(fast_, Metric::gpu_pcie_rx_bytes, nvml::kFieldPcieRxBytes, 0, "", 1);
    watch(slow_, Metric::gpu_memory_temperature_celsius, nvml::kFieldMemoryTemp, 0, "", 1);
    watch(slow_, Metric::gpu_throttled_ns, nvml::kFieldPolicyPower, 0, "power", 1);
    watch(slow_, Metric::gpu_throttled_ns, nvml::kFieldPolicyThermal, 0, "thermal", 1);
    watch(slow_, Metric::gpu_throttled_ns, nvml::kFieldPolicySyncBoost, 0, "sync boost", 1);
    watch(slow_, Metric::gpu_throttled_ns, nvml::kFieldThrottleSwThermal, 0, "software thermal", 1);
    watch(slow_, Metric::gpu_throttled_ns, nvml::kFieldThrottleHwThermal, 0, "hardware thermal", 1);
    watch(slow_, Metric::gpu_throttled_ns, nvml::kFieldThrottlePowerBrake, 0, "power brake", 1);
    // Blackwell's links count bytes each; before, a GPU counts KiB of payload over all its links.
    bool has_links = false, nvlink5 = false;
    for (const NvLink& l : gpu.links) {
      has_links |= l.active;
      nvlink5 |= l.active && l.version >= 5;
    }
    for (const NvLink& l : gpu.links) {
      if (!l.active || !nvlink5) continue;
      watch(fast_, Metric::gpu_nvlink_tx_bytes, nvml::kFieldNvLinkTxBytes, l.link, "link " + std::to_string(l.link), 1);
      watch(fast_, Metric::gpu_nvlink_rx_bytes, nvml::kFieldNvLinkRxBytes, l.link, "link " + std::to_string(l.link), 1);
    }
    if (!nvlink5) {
      watch(fast_, Metric::gpu_nvlink_tx_bytes, nvml::kFieldNvLinkTxKib, nvml::kAllLinks, "", 1024);
      watch(fast_, Metric::gpu_nvlink_rx_bytes, nvml::kFieldNvLinkRxKib, nvml::kAllLinks, "", 1024);
    }
    watch(rare_, Metric::gpu_pcie_replays, nvml::kFieldPcieReplays, 0, "", 1);
    for (const NvLink& l : gpu.links) {
      if (!has_links || !l.active) continue;
      const std::string link = "link " + std::to_string(l.link);
      watch(rare_, Metric::gpu_nvlink_errors, nvml::kFieldNvLinkReplay, l.link, link + " replay", 1);
      watch(rare_, Metric::gpu_nvlink_errors, nvml::kFieldNvLinkRecovery, l.link, link + " recovery", 1);
      watch(rare_, Metric::gpu_nvlink_errors, nvml::kFieldNvLinkCrc, l.link, link + " crc", 1);
    }
    for (const std::string& name : fields) {
      const int id = nvmlField(name);
      if (id < 0) continue;
      own_metrics_.push_back({"nvml_" + nvmlFieldName(id), "", MetricKind::gauge, Rate::slow, 0,
                              "NVML's field " + std::to_string(id) + ", as NVML gives it"});
      slow_.push_back({&own_metrics_.back(), static_cast<uint32_t>(id), 0, "", 1});
    }
  }

  ~NvidiaGpu() override { close(); }

  Status open() override {
    close();
    TS_TRY(pool_->get(session_));
    uint32_t count = 0;
    Return r = session_->call(&Functions::count, &count), own = nvml::kSuccess;
    // Where it was before, then anywhere: another GPU may hang when it is asked.
    for (uint32_t k = 0; k <= count && r == nvml::kSuccess && !device_; ++k) {
      const auto i = k == 0 ? static_cast<uint32_t>(gpu_.index) : k - 1;
      Device d = nullptr;
      char uuid[96] = "";
      Return h = i < count ? session_->call(&Functions::handle, i, &d) : nvml::kNotFound;
      if (h == nvml::kSuccess) h = session_->call(&Functions::uuid, d, uuid, uint32_t{sizeof uuid});
      if (k == 0) own = i < count ? h : own;
      if (h == nvml::kSuccess && (gpu_.uuid.empty() ? k == 0 : gpu_.uuid == uuid)) device_ = d;
      if (gpu_.uuid.empty() && k == 0) break;
    }
    if (!device_) {
      if (r != nvml::kSuccess) pool_->broken(session_);
      session_.reset();
      if (r != nvml::kSuccess || own != nvml::kSuccess) return nvmlFailure(name(), r != nvml::kSuccess ? r : own);
      return Status::io("GPU gone: " + name() + " is no longer among NVML's GPUs");
    }
    nvml::GpmSupport support{1, 0};
    gpm_ = session_->call(&Functions::gpmSupport, device_, &support) == nvml::kSuccess && support.supported != 0 &&
           session_->call(&Functions::gpmAlloc, &gpm_samples_[0]) == nvml::kSuccess &&
           session_->call(&Functions::gpmAlloc, &gpm_samples_[1]) == nvml::kSuccess;
    gpm_taken_ = false;
    return {};
  }

  Status read(Rate rate, Batch& out) override {
    last_ = nvml::kSuccess;
    if (rate == Rate::fast)
      readFast(out);
    else if (rate == Rate::slow)
      readSlow(out);
    else
      readRare(out);
    if (last_ == nvml::kSuccess) return {};
    pool_->broken(session_);
    const Return r = last_;
    close();
    return nvmlFailure(name(), r);
  }

 private:
  /// True when the call gave something. A device that is gone ends the reading.
  bool good(Return r) {
    if (nvml::dead(r)) last_ = r;
    return r == nvml::kSuccess;
  }

  /// One number, NULL when the device cannot say.
  template <typename Function, typename... Arguments>
  void number(Batch& out, Metric metric, double scale, Function function, Arguments... arguments) {
    if (last_ != nvml::kSuccess) return;
    uint32_t v = 0;
    const Return r = session_->call(function, device_, arguments..., &v);
    if (good(r))
      out.add(metric, v * scale);
    else if (nvml::never(r))
      out.add(metric, kNotSupported);
  }

  void readFast(Batch& out) {
    nvml::Utilization u{};
    if (Return r = session_->call(&Functions::utilization, device_, &u); good(r)) {
      out.add(Metric::gpu_utilization_percent, u.gpu);
      out.add(Metric::gpu_memory_utilization_percent, u.memory);
    } else if (nvml::never(r)) {
      out.add(Metric::gpu_utilization_percent, kNotSupported);
      out.add(Metric::gpu_memory_utilization_percent, kNotSupported);
    }
    number(out, Metric::gpu_power_watts, 1e-3, &Functions::power);
    number(out, Metric::gpu_temperature_celsius, 1, &Functions::temperature, 0u);
    number(out, Metric::gpu_sm_clock_mhz, 1, &Functions::clock, 1u);
    number(out, Metric::gpu_memory_clock_mhz, 1, &Functions::clock, 2u);
    uint64_t reasons = 0;
    if (last_ != nvml::kSuccess) return;
    if (Return r = session_->call(&Functions::throttle, device_, &reasons); good(r))
      out.add(Metric::gpu_throttle_reasons, static_cast<double>(reasons));
    else if (nvml::never(r))
      out.add(Metric::gpu_throttle_reasons, kNotSupported);
    readMemory(out);
    readFields(fast_, out);
  }

  void readMemory(Batch& out) {
    if (last_ != nvml::kSuccess) return;
    nvml::MemoryV2 v2{};
    v2.version = nvml::kMemoryV2;
    if (good(session_->call(&Functions::memoryV2, device_, &v2))) {
      out.add(Metric::gpu_memory_used_bytes, static_cast<double>(v2.used));
      return;
    }
    nvml::Memory v1{};
    if (Return r = session_->call(&Functions::memory, device_, &v1); good(r))
      out.add(Metric::gpu_memory_used_bytes, static_cast<double>(v1.used));
    else if (nvml::never(r))
      out.add(Metric::gpu_memory_used_bytes, kNotSupported);
  }

  void readFields(std::vector<WatchedField>& list, Batch& out) {
    values_.clear();
    for (const WatchedField& f : list) {
      if (f.never) continue;
      nvml::FieldValue v{};
      v.field = f.field;
      v.scope = f.scope;
      values_.push_back(v);
    }
    if (values_.empty() || last_ != nvml::kSuccess) return;
    const Return r = session_->call(&Functions::fieldValues, device_, static_cast<int>(values_.size()), values_.data());
    if (!good(r) && !nvml::never(r)) return;
    size_t i = 0;
    for (WatchedField& f : list) {
      if (f.never) continue;
      const nvml::FieldValue& v = values_[i++];
      const auto result = r == nvml::kSuccess ? static_cast<Return>(v.result) : r;
      if (result == nvml::kSuccess) {
        const double value = f.metric->kind == MetricKind::counter
                                 ? f.counter.total(static_cast<uint64_t>(nvml::fieldNumber(v)), nvml::fieldBits(v))
                                 : nvml::fieldNumber(v);
        out.add(*f.metric, value * f.scale, f.part);
      } else if (nvml::never(result) || result == nvml::kInvalidArgument) {
        f.never = true;
        out.add(*f.metric, kNotSupported, f.part);
      }
    }
  }

  void readGpm(Batch& out) {
    static constexpr std::pair<nvml::Gpm, Metric> kWanted[] = {
        {nvml::kGpmSmUtil, Metric::gpu_sm_activity_percent},
        {nvml::kGpmSmOccupancy, Metric::gpu_sm_occupancy_percent},
        {nvml::kGpmAnyTensor, Metric::gpu_tensor_activity_percent},
        {nvml::kGpmDramBw, Metric::gpu_dram_activity_percent},
        {nvml::kGpmFp64, Metric::gpu_fp64_activity_percent},
        {nvml::kGpmFp32, Metric::gpu_fp32_activity_percent},
        {nvml::kGpmFp16, Metric::gpu_fp16_activity_percent}};
    if (!gpm_) {
      for (const auto& [id, metric] : kWanted) out.add(metric, kNotSupported);
      return;
    }
    if (!good(session_->call(&Functions::gpmGet, device_, gpm_samples_[1]))) return;
    if (gpm_taken_) {
      gpm_metrics_->version = 1;
      gpm_metrics_->count = std::size(kWanted);
      gpm_metrics_->sample1 = gpm_samples_[0];
      gpm_metrics_->sample2 = gpm_samples_[1];
      for (size_t i = 0; i < std::size(kWanted); ++i) gpm_metrics_->metrics[i].id = kWanted[i].first;
      if (good(session_->call(&Functions::gpmMetrics, gpm_metrics_.get())))
        for (size_t i = 0; i < std::size(kWanted); ++i) {
          const nvml::GpmMetric& m = gpm_metrics_->metrics[i];
          if (m.result == nvml::kSuccess && m.value == m.value)
            out.add(kWanted[i].second, m.value);
          else if (nvml::never(static_cast<Return>(m.result)))
            out.add(kWanted[i].second, kNotSupported);
        }
    }
    std::swap(gpm_samples_[0], gpm_samples_[1]);
    gpm_taken_ = true;
  }

  void readProcesses(Batch& out) {
    if (last_ != nvml::kSuccess) return;
    std::array<nvml::ProcessInfo, 128> list{};
    uint32_t count = list.size();
    if (!good(session_->call(&Functions::processes, device_, &count, list.data()))) return;
    for (uint32_t i = 0; i < count; ++i)
      out.add(
          Metric::gpu_process_memory_bytes,
          list[i].used_memory == nvml::kValueNotAvailable ? kNotSupported : static_cast<double>(list[i].used_memory),
          out.text(std::to_string(list[i].pid)));
  }

  void readSlow(Batch& out) {
    readFields(slow_, out);
    if (last_ == nvml::kSuccess) readGpm(out);
    number(out, Metric::gpu_fan_percent, 1, &Functions::fan);
    readProcesses(out);
    readInstances(out);
  }

  /// Memory of each MIG instance.
  void readInstances(Batch& out) {
    if (!gpu_.mig || last_ != nvml::kSuccess) return;
    uint32_t most = 0;
    if (!good(session_->call(&Functions::maxMigDevices, device_, &most))) return;
    for (uint32_t i = 0; i < most && last_ == nvml::kSuccess; ++i) {
      Device m = nullptr;
      uint32_t gi = 0, ci = 0;
      nvml::Memory memory{};
      if (session_->call(&Functions::migHandle, device_, i, &m) != nvml::kSuccess) continue;
      if (!good(session_->call(&Functions::memory, m, &memory))) continue;
      (void)session_->call(&Functions::gpuInstanceId, m, &gi);
      (void)session_->call(&Functions::computeInstanceId, m, &ci);
      out.add(Metric::gpu_memory_used_bytes, static_cast<double>(memory.used),
              out.text("mig " + std::to_string(gi) + "/" + std::to_string(ci)));
    }
  }

  void readRare(Batch& out) {
    number(out, Metric::gpu_power_limit_watts, 1e-3, &Functions::powerLimit);
    number(out, Metric::gpu_pcie_generation, 1, &Functions::pcieGeneration);
    number(out, Metric::gpu_pcie_lanes, 1, &Functions::pcieLanes);
    if (gpu_.memory_bytes != kUnknown) out.add(Metric::gpu_memory_total_bytes, static_cast<double>(gpu_.memory_bytes));
    uint64_t v = 0;
    if (last_ != nvml::kSuccess) return;
    if (Return r = session_->call(&Functions::energy, device_, &v); good(r))
      out.add(Metric::gpu_energy_joules, energy_.total(v) * 1e-3);
    else if (nvml::never(r))
      out.add(Metric::gpu_energy_joules, kNotSupported);
    for (uint32_t kind : {0u, 1u}) {
      if (last_ != nvml::kSuccess) return;
      const Metric metric = kind == 0 ? Metric::gpu_ecc_corrected : Metric::gpu_ecc_uncorrected;
      if (Return r = session_->call(&Functions::eccErrors, device_, kind, 0u, &v); good(r))
        out.add(metric, static_cast<double>(v));
      else if (nvml::never(r))
        out.add(metric, kNotSupported);
    }
    uint32_t rows[4] = {};
    if (last_ != nvml::kSuccess) return;
    if (Return r = session_->call(&Functions::remappedRows, device_, &rows[0], &rows[1], &rows[2], &rows[3]); good(r)) {
      static constexpr const char* kParts[] = {"correctable", "uncorrectable", "pending", "failure"};
      for (size_t i = 0; i < 4; ++i) out.add(Metric::gpu_remapped_rows, rows[i], kParts[i]);
    } else if (nvml::never(r)) {
      out.add(Metric::gpu_remapped_rows, kNotSupported);
    }
    if (last_ == nvml::kSuccess) readFields(rare_, out);
  }

  void close() {
    if (session_)
      for (nvml::GpmSample& s : gpm_samples_)
        if (s) (void)session_->call(&Functions::gpmFree, s);
    gpm_samples_ = {};
    device_ = nullptr;
    session_.reset();
  }

  std::shared_ptr<NvmlPool> pool_;
  Gpu gpu_;
  std::shared_ptr<nvml::Session> session_;
  Device device_ = nullptr;
  Return last_ = nvml::kSuccess;
  std::vector<WatchedField> fast_, slow_, rare_;
  std::deque<MetricInfo> own_metrics_;
  std::vector<nvml::FieldValue> values_;
  Counter energy_;
  bool gpm_ = false, gpm_taken_ = false;
  std::array<nvml::GpmSample, 2> gpm_samples_{};
  std::unique_ptr<nvml::GpmMetrics> gpm_metrics_ = std::make_unique<nvml::GpmMetrics>();
};

}  // namespace

std::unique_ptr<Source> nvidiaSource(std::shared_ptr<NvmlPool> pool, const Gpu& gpu,
                                     const std::vector<std::string>& fields) {
  return std::make_unique<NvidiaGpu>(std::move(pool), gpu, fields);
}

}  // namespace tracesmith::hardware
