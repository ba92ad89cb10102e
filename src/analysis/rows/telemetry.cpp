#include "analysis/rows/telemetry.hpp"

#include <bit>
#include <cmath>
#include <cstdio>

#include "analysis/rows/each_row.hpp"
#include "analysis/rows/trends.hpp"
#include "base/statistics.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

bool has(std::string_view name, std::string_view part) { return name.find(part) != name.npos; }

std::string format(const char* text, double a, double b) {
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, text, a, b);
  return buffer;
}

}  // namespace

Result<Telemetry> Telemetry::load(const Reader& reader, const trace::NameNumbers& names) {
  Telemetry out;
  std::vector<int8_t> kinds;
  for (uint32_t n = 0; n < names.size(); ++n) {
    const std::string_view name = names.text(n);
    int kind = -1;
    if (has(name, "throttle"))
      kind = kThrottle;
    else if (has(name, "ecc"))
      kind = kEcc;
    else if (has(name, "fault"))
      kind = kFaults;
    else if (has(name, "sm_clock"))
      kind = kClock;
    else if (has(name, "power") && !has(name, "limit"))
      kind = kPower;
    else if (has(name, "temperature"))
      kind = kTemperature;
    kinds.push_back(static_cast<int8_t>(kind));
  }
  namespace m = metrics;
  TS_TRY(eachRow<MetricRow>(
      reader, names, {m::ts, m::node, m::device, m::name, m::value, m::part}, [&](const MetricRow& row, auto&&) {
        if (row.ts == kNull || row.device == kNull || row.name == kNull || row.value == kNull || row.node == kNull)
          return;
        const int kind = kinds[static_cast<size_t>(row.name)];
        if (kind < 0) return;
        Device& device = out.samples_[{std::string(names.text(static_cast<uint32_t>(row.node))), row.device}];
        const Sample sample{row.ts, static_cast<float>(std::bit_cast<double>(row.value))};
        device.kinds[kind].push_back(sample);
        if (kind != kThrottle) return;
        std::string reason(names.text(static_cast<uint32_t>(row.name)));
        if (row.part != kNull) reason += " " + std::string(names.text(static_cast<uint32_t>(row.part)));
        device.reasons[reason].push_back(sample);
      }));
  return out;
}

double Telemetry::meanSince(const Device& device, Kind kind, int64_t from) const {
  double sum = 0, count = 0;
  for (const Sample& s : device.kinds[kind])
    if (s.ts >= from) {
      sum += s.value;
      ++count;
    }
  return count > 0 ? sum / count : std::nan("");
}

double Telemetry::peers(Kind kind, const Key& of, const DeviceModels& models) const {
  std::vector<double> values;
  for (const auto& [key, device] : samples_)
    if (key != of && models.nameOf(key.first, key.second) == models.nameOf(of.first, of.second))
      values.push_back(meanSince(device, kind, INT64_MIN));
  return median(std::move(values));
}

Finding Telemetry::explain(const std::string& node, int64_t device_number, int64_t from,
                           const DeviceModels& models) const {
  const Key own{node, device_number};
  auto it = samples_.find(own);
  if (it == samples_.end()) return {};
  const Device& device = it->second;
  Finding out;
  auto say = [&](Cause cause, const std::string& sentence) {
    if (!out.cause) out.cause = cause;
    out.sentence += (out.sentence.empty() ? "" : ", ") + sentence;
  };
  // Counters that grow: errors and faults.
  for (Kind kind : {kEcc, kFaults}) {
    double first = std::nan(""), last = std::nan("");
    for (const Sample& s : device.kinds[kind]) {
      if (s.ts < from && !std::isnan(first)) continue;
      if (std::isnan(first)) first = s.value;
      last = s.value;
    }
    const Cause cause = kind == kEcc ? Cause::ecc : Cause::page_faults;
    if (last > first) say(cause, sentenceOf(cause, last - first));
  }
  for (const auto& [reason, samples] : device.reasons) {
    double on = 0, count = 0;
    for (const Sample& s : samples)
      if (s.ts >= from) {
        on += s.value > 0;
        ++count;
      }
    if (count == 0 || on / count < 0.2) continue;
    const bool power = has(reason, "power"), heat = has(reason, "therm") || has(reason, "temp");
    say(Cause::throttled, std::string("GPU throttled") + (power  ? " because of power"
                                                          : heat ? " because of heat"
                                                                 : " (" + reason + ")"));
  }
  const double clock = meanSince(device, kClock, from), others = peers(kClock, own, models);
  if (clock < 0.97 * others) {
    say(Cause::clock, sentenceOf(Cause::clock, clock, others));
    const double heat = meanSince(device, kTemperature, from), usual = peers(kTemperature, own, models);
    if (heat > usual + 10) say(Cause::clock, format("%.0f °C, others %.0f", heat, usual));
    const double power = meanSince(device, kPower, from), normal = peers(kPower, own, models);
    if (power < 0.9 * normal || power > 1.1 * normal) say(Cause::clock, format("%.0f W, others %.0f", power, normal));
  }
  return out;
}

}  // namespace tracesmith::analysis
