// What the hardware said about itself while it was slow: clocks, throttling, power, memory errors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/rows/device_models.hpp"
#include "trace/name_numbers.hpp"
#include "tracesmith/model/cause.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

struct Finding {
  std::optional<Cause> cause;  ///< nothing: nothing stands out
  std::string sentence;        ///< "SM clock 1380 MHz, others 1980"
};

class Telemetry {
 public:
  static Result<Telemetry> load(const trace::Reader& reader, const trace::NameNumbers& names);
  bool empty() const { return samples_.empty(); }
  /// What sets this device apart from the others of its model, from a time (raw clock of its node) on.
  Finding explain(const std::string& node, int64_t device, int64_t from, const DeviceModels& models) const;

 private:
  struct Sample {
    int64_t ts;
    float value;
  };
  enum Kind { kClock, kPower, kTemperature, kThrottle, kEcc, kFaults, kKinds };
  struct Device {
    std::vector<Sample> kinds[kKinds];
    std::map<std::string, std::vector<Sample>> reasons;  // of throttling, by name
  };
  double meanSince(const Device& device, Kind kind, int64_t from) const;
  using Key = std::pair<std::string, int64_t>;  // node, device
  double peers(Kind kind, const Key& of, const DeviceModels& models) const;
  std::map<Key, Device> samples_;
};

}  // namespace tracesmith::analysis
