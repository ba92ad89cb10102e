// What sources of NVIDIA's GPUs share: the session, names of fields, how a failure is told.
#include <map>

#include "base/text.hpp"
#include "hardware/nvidia/source.hpp"

namespace tracesmith::hardware {

using nvml::Return;

Status nvmlFailure(const std::string& gpu, Return r) {
  const char* cause = r == nvml::kGpuIsLost              ? "GPU lost"
                      : r == nvml::kResetRequired        ? "GPU needs a reset"
                      : r == nvml::kUninitialized        ? "driver reloaded"
                      : r == nvml::kDriverNotLoaded      ? "driver not loaded"
                      : r == nvml::kLibRmVersionMismatch ? "driver reloaded"
                                                         : "NVML error";
  return Status::io(std::string(cause) + ": " + gpu + " does not respond: " + nvml::returnText(r));
}

Status NvmlPool::get(std::shared_ptr<nvml::Session>& session) {
  std::unique_lock lock(mutex_);
  if (!session_) {
    Result<std::shared_ptr<nvml::Session>> opened = nvml::Session::open(library_);
    if (!opened) return Status::io("NVML missing: " + opened.status().message());
    session_ = *opened;
  }
  session = session_;
  return {};
}

void NvmlPool::broken(const std::shared_ptr<nvml::Session>& session) {
  std::unique_lock lock(mutex_);
  if (session_ == session) session_.reset();
}

namespace {

const std::map<std::string, int, std::less<>>& fieldNames() {
  static const std::map<std::string, int, std::less<>> kFields = {
#define FIELD(name, number) {#name, number},
#include "hardware/nvidia/fields.def"
  };
  return kFields;
}

}  // namespace

std::string nvmlFieldName(int number) {
  for (const auto& [name, n] : fieldNames())
    if (n == number) return name;
  return "field_" + std::to_string(number);
}

int nvmlField(std::string_view name) {
  std::string lower(name);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (lower.starts_with("nvml_fi_dev_")) lower = lower.substr(12);
  if (auto i = fieldNames().find(lower); i != fieldNames().end()) return i->second;
  int64_t number = 0;
  return parseInt(lower, number) && number > 0 && number < 10000 ? static_cast<int>(number) : -1;
}

}  // namespace tracesmith::hardware
