// A device that work can be given to, and what is known of it: what it is, and what it did last.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::schedule {

/// A GPU of any vendor. What is not known is absent or empty, never 0.
struct GPUDevice {
  std::string device_id;          ///< unique: "cuda:0", "node-a:3"
  std::string problem;            ///< why it cannot be used now; empty: it can
  std::string name;               ///< model
  std::string vendor;             ///< nvidia, amd, intel, apple, qualcomm, …
  std::string node;               ///< the machine it is in; empty: this one
  std::optional<uint32_t> index;  ///< on its node, as GPUTopology counts; absent: locality is not known
  std::optional<uint64_t> memory_bytes;
  std::string compute_capability;  ///< of NVIDIA's GPUs: "9.0"
  std::optional<uint32_t> compute_units, clock_rate_mhz;
  std::optional<double> bandwidth_gbps;         ///< GB/s of its memory, as measured
  std::map<std::string, double> matrix_tflops;  ///< by precision ("bf16"), as measured or declared
  std::vector<std::string> precisions;          ///< that it is declared to support, beside the measured ones
  std::string driver_version;
  bool simulated = false;
};

/// What a device did at one moment. What was not measured is absent, never 0.
struct GPUMetrics {
  std::string device_id;
  double timestamp = 0;  ///< Unix time in seconds, on the clock of whoever measured
  std::optional<uint64_t> memory_used_bytes, memory_total_bytes;
  std::optional<double> compute_utilization_percent, power_watts, temperature_celsius, clock_rate_mhz;
};

/// Precisions that can be asked for: fp64, fp32, tf32, fp16, bf16, fp8, int8, fp4.
TRACESMITH_API const std::vector<std::string>& precisions();

/// Whether a device computes matrix products in a precision: measured, declared, or known from NVIDIA's compute
/// capability. Absent: not known.
TRACESMITH_API std::optional<bool> supports(const GPUDevice& device, const std::string& precision);

/// Says what is impossible in it: used more than there is, a utilisation over 100 %, a temperature below absolute zero.
TRACESMITH_API Status check(const GPUMetrics& metrics);

}  // namespace tracesmith::schedule
