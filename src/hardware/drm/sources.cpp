#include "hardware/drm/sources.hpp"

#include <cerrno>
#include <cstring>

namespace tracesmith::hardware {
namespace {

class SensorSource : public Source {
 public:
  SensorSource(const std::string& root, const Gpu& gpu, const Card& card, Sensors sensors)
      : Source(gpu.vendor + " gpu " + std::to_string(gpu.index), gpu.index, kAllRates),
        card_(card),
        clients_(root, card),
        busy_from_engines_(sensors.busy_from_engines) {
    for (Sensor& s : sensors.files) {
      SmallFile file(s.path);
      files_.push_back({std::move(file), s.metric, s.scale, std::move(s.part), {}});
    }
    if (!sensors.energy_uj.empty()) energy_.emplace(sensors.energy_uj);
  }

  Status read(Rate rate, Batch& out) override {
    size_t asked = 0, failed = 0;
    int error = 0;
    for (File& f : files_) {
      if (metricInfo(f.metric).rate != rate) continue;
      ++asked;
      if (std::optional<int64_t> v = f.file.number()) {
        const double value = metricInfo(f.metric).kind == MetricKind::counter
                                 ? f.counter.total(static_cast<uint64_t>(*v))
                                 : static_cast<double>(*v);
        out.add(f.metric, value * f.scale, f.part);
        continue;
      }
      ++failed;
      error = f.file.error();
      out.add(f.metric, kNotSupported, f.part);  // not there, not ours to read, or nonsense: not measured
    }
    if (asked > 0 && failed == asked && !listable())
      return Status::io("GPU gone: the files of " + name() + " can no longer be read: " + std::strerror(error));
    if (rate == Rate::fast && energy_) readEnergy(out);
    if (rate == Rate::slow) readClients(out);
    return {};
  }

 private:
  bool listable() const { return realPath(card_.device).has_value(); }

  void readEnergy(Batch& out) {
    std::optional<int64_t> v = energy_->number();
    if (!v) return;
    const double joules = total_.total(static_cast<uint64_t>(*v)) * 1e-6;
    if (energy_ns_ != 0 && out.tsNs() > energy_ns_)
      out.add(Metric::gpu_power_watts, (joules - joules_) / (static_cast<double>(out.tsNs() - energy_ns_) * 1e-9));
    joules_ = joules;
    energy_ns_ = out.tsNs();
    out.add(Metric::gpu_energy_joules, joules);
  }

  void readClients(Batch& out) {
    Clients::Usage usage = clients_.read(out.tsNs());
    double most = 0;
    for (const auto& [engine, percent] : usage.engine_percent) {
      out.add(Metric::gpu_engine_busy_percent, percent, out.text(engine));
      most = std::max(most, percent);
    }
    if (busy_from_engines_ && usage.seen && !usage.engine_percent.empty())
      out.add(Metric::gpu_utilization_percent, most);
    for (const auto& [pid, bytes] : usage.process_bytes)
      out.add(Metric::gpu_process_memory_bytes, bytes, out.text(std::to_string(pid)));
  }

  struct File {
    SmallFile file;
    Metric metric;
    double scale;
    std::string part;
    Counter counter;
  };
  Card card_;
  std::vector<File> files_;
  Clients clients_;
  bool busy_from_engines_;
  std::optional<SmallFile> energy_;
  Counter total_;
  double joules_ = 0;
  int64_t energy_ns_ = 0;
};

}  // namespace

std::unique_ptr<Source> sensorSource(const std::string& root, const Gpu& gpu, const Card& card, Sensors sensors) {
  return std::make_unique<SensorSource>(root, gpu, card, std::move(sensors));
}

}  // namespace tracesmith::hardware
