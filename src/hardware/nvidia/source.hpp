// Telemetry of NVIDIA's GPUs.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hardware/nvidia/nvml.hpp"
#include "hardware/source.hpp"

namespace tracesmith::hardware {

/// The one NVML session all sources use, opened again when it broke.
class NvmlPool {
 public:
  explicit NvmlPool(std::string library) : library_(std::move(library)) {}
  Status get(std::shared_ptr<nvml::Session>& session);
  /// The next get() opens a new one, if this is still the current one.
  void broken(const std::shared_ptr<nvml::Session>& session);

 private:
  std::string library_;
  std::mutex mutex_;  // guards session_
  std::shared_ptr<nvml::Session> session_;
};

std::unique_ptr<Source> nvidiaSource(std::shared_ptr<NvmlPool> pool, const Gpu& gpu,
                                     const std::vector<std::string>& fields);
/// XID errors of all GPUs.
std::unique_ptr<Source> nvidiaEventSource(std::shared_ptr<NvmlPool> pool, const Inventory& inventory);
/// "cause: one sentence" for an answer of NVML that ends a reading.
Status nvmlFailure(const std::string& who, nvml::Return r);
/// Number of one of NVML's fields by its name, "NVML_FI_DEV_PCIE_COUNT_BAD_TLP" or "pcie_count_bad_tlp"; "176" too.
/// −1: there is none.
int nvmlField(std::string_view name);
/// Name of a field, in small letters: "pcie_count_bad_tlp"; "field_999" where we know none.
std::string nvmlFieldName(int number);

}  // namespace tracesmith::hardware
