#include "cluster/agent/hardware_source.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "hardware/node/recorder.hpp"
#include "hardware/sources.hpp"

namespace tracesmith::cluster {

using namespace trace;

namespace {

constexpr size_t kMostValues = 1u << 18;  // when the disk is full nobody takes them: more are counted
constexpr int kSlowMs = 1000, kRareMs = 10000;

}  // namespace

HardwareSource::HardwareSource(hardware::Places places, hardware::Latest& latest)
    : places_(std::move(places)), latest_(latest) {
  start();
}

void HardwareSource::watch(uint32_t freq_ms) {
  if (freq_ms == freq_ms_) return;
  sampler_.reset();
  freq_ms_ = freq_ms;
  start();
}

void HardwareSource::start() {
  hardware::SamplerOptions options;
  options.places = places_;
  options.host = freq_ms_ > 0;
  options.fast_ms = freq_ms_ > 0 ? static_cast<int>(freq_ms_) : kSlowMs;
  options.slow_ms = std::max(kSlowMs, options.fast_ms);
  options.rare_ms = std::max(kRareMs, options.fast_ms);
  sampler_.reset(new hardware::Sampler(options, *this));  // make_unique does not see the private base
  sampler_->start();
}

void HardwareSource::inventory(const hardware::Inventory& inventory) {
  latest_.inventory(inventory);
  if (freq_ms_ == 0) return;
  std::lock_guard lock(mutex_);
  inventory_ = inventory;
  inventory_new_ = true;
}

void HardwareSource::samples(std::span<const hardware::Sample> samples) {
  latest_.samples(samples);
  if (freq_ms_ == 0) return;
  std::lock_guard lock(mutex_);
  for (const hardware::Sample& s : samples) {
    if (std::isnan(s.value)) continue;  // the device does not have it
    if (values_.size() < kMostValues)
      values_.push_back({s.ts_ns, s.device, s.metric, std::string(s.part), s.value});
    else
      ++dropped_;
  }
}

void HardwareSource::gap(const hardware::Gap& gap) {
  latest_.gap(gap);
  if (freq_ms_ == 0) return;
  std::lock_guard lock(mutex_);
  if (gap.to_ns != 0) gaps_.push_back(gap);
}

void HardwareSource::newSegment() {
  described_.clear();
  node_described_ = false;
  std::lock_guard lock(mutex_);
  inventory_new_ = inventory_.has_value();
}

Result<size_t> HardwareSource::take(Writer& writer, Appender& out) {
  std::vector<Value> values;
  std::vector<hardware::Gap> gaps;
  std::optional<hardware::Inventory> inventory;
  uint64_t dropped;
  {
    std::lock_guard lock(mutex_);
    values.swap(values_);
    gaps.swap(gaps_);
    dropped = std::exchange(dropped_, 0);
    if (std::exchange(inventory_new_, false)) inventory = inventory_;
  }
  const int64_t node = writer.string(places_.node);
  size_t rows = values.size();
  if (inventory) {
    // Simulated GPUs are described by the rings of the simulated job.
    for (const hardware::Gpu& gpu : inventory->gpus)
      if (gpu.simulated) described_.insert(hardware::gpuKey(gpu));
    TS_TRY(hardware::appendInventory(writer, out, *inventory, described_, !std::exchange(node_described_, true)));
    ++rows;
  }
  for (const Value& v : values) {
    MetricRow row;
    row.ts = v.ts_ns;
    row.node = node;
    if (v.device >= 0) row.device = v.device;
    row.name = writer.string(v.metric->name);
    if (!v.metric->unit.empty()) row.unit = writer.string(v.metric->unit);
    if (!v.part.empty()) row.part = writer.string(v.part);
    row.value = real(v.value);
    TS_TRY(out.append(row));
  }
  auto loss = [&](const std::string& cause, const std::string& detail, uint64_t count) {
    LossRow row;
    row.node = node;
    row.cause = writer.string(cause);
    row.count = static_cast<int64_t>(count);
    row.detail = out.text(detail);
    return out.append(row);
  };
  for (const hardware::Gap& g : gaps) TS_TRY(loss(g.cause, g.source + ": " + g.detail, g.missed));
  if (dropped > 0) TS_TRY(loss("telemetry dropped", "samples dropped because the buffer was full", dropped));
  return rows + gaps.size();
}

}  // namespace tracesmith::cluster
