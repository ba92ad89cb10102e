// Which devices are best for some work: those that can do it, by free memory, idleness and temperature.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/hardware/gpu_topology.hpp"
#include "tracesmith/schedule/device.hpp"
#include "tracesmith/schedule/telemetry_collector.hpp"

namespace tracesmith::schedule {

/// What the devices must be. The default asks for the best one, whatever it is.
struct SelectionRequest {
  uint32_t count = 1;                             ///< how many devices
  uint64_t min_memory_bytes = 0;                  ///< free memory
  std::string precision;                          ///< must be supported: "bf16"; empty: any
  std::string vendor, node;                       ///< empty: any
  std::string near;                               ///< a device: those with the fastest connection to it come first
  std::optional<double> max_utilization_percent;  ///< absent: any
  std::optional<double> max_temperature_celsius;  ///< absent: any
  std::vector<std::string> exclude;               ///< devices not to take
  double max_age_s = 30;                          ///< older telemetry does not count; 0: any does
};

/// Why a device was not taken.
enum class Reason : uint8_t {
  none,
  excluded,
  near_itself,
  problem,
  vendor,
  node,
  no_precision,
  precision_unknown,
  no_telemetry,
  stale,
  memory_unknown,
  too_little_memory,
  utilization_unknown,
  too_busy,
  temperature_unknown,
  too_hot,
  no_score,
};
/// One sentence without a full stop.
TRACESMITH_API const char* reasonText(Reason reason);

struct Choice {
  std::string device_id;
  double score = 0;  ///< 0 to 1
  std::optional<uint64_t> memory_free_bytes;
  std::optional<double> utilization_percent, temperature_celsius;
  std::optional<double> near_gbps;  ///< GB/s to the device to be near to; absent: not asked, or not known
  std::optional<double> age_s;      ///< of its telemetry
  bool simulated = false;
};

struct Rejection {
  std::string device_id;
  Reason reason = Reason::none;
  std::string problem{};  ///< of the device, if that is the reason
  /// One sentence without a full stop.
  std::string text() const { return problem.empty() ? reasonText(reason) : problem; }
};

/// Best first; fewer than asked for, if no more are suitable. Every device is suitable or rejected.
struct Selection {
  std::vector<Choice> devices;
  uint64_t suitable = 0;  ///< how many there were to choose from
  std::vector<Rejection> rejected;
};

/// A device as the selector sees it.
struct Candidate {
  const GPUDevice* device = nullptr;
  int32_t number = 0;  ///< in the TelemetryCollector
};

class TRACESMITH_API DeviceSelector {
 public:
  /// 60 % free memory, as a share of the largest device's memory, and 40 % idleness. Above 80 °C it falls with the
  /// temperature, to a tenth from 116 °C on. What is not known adds nothing: an unknown device is never the best one.
  /// 0 if max_memory_bytes is 0.
  static double score(const GPUMetrics& metrics, uint64_t max_memory_bytes);

  /// The best of the suitable devices; of equal ones the first. `topologies` is by node. The device of request.near is
  /// named by its id.
  Result<Selection> select(const std::vector<Candidate>& candidates, const TelemetryCollector& telemetry,
                           const std::map<std::string, cluster::GPUTopology>& topologies,
                           const SelectionRequest& request, int64_t now_ns = 0) const;
};

/// What `tracesmith devices --select --json` and POST /api/v1/select answer.
TRACESMITH_API std::string selectionJson(const Selection& selection, const SelectionRequest& request);

}  // namespace tracesmith::schedule
