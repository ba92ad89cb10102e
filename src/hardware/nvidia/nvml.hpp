// NVIDIA's management library, found by dlopen: one open session, shared by all who use it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/library.hpp"
#include "hardware/nvidia/nvml_abi.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::nvml {

/// Closed and unloaded when the last user has gone: after a driver was reloaded a new one must be opened, with the new
/// library. Calls may come from several threads.
class Session {
 public:
  /// `library`: empty for libnvidia-ml.so.1. May hang as long as the driver does.
  static Result<std::shared_ptr<Session>> open(const std::string& library);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Calls a function of the table: session.call(&Functions::power, device, &milliwatts).
  template <typename... Parameters, typename... Arguments>
  Return call(Return (*Functions::*function)(Parameters...), Arguments... arguments) const {
    return functions_.*function ? (functions_.*function)(arguments...) : kFunctionNotFound;
  }

 private:
  Session() = default;
  std::optional<SharedLibrary> library_;
  Functions functions_;
};

/// "GPU is lost (15)".
std::string returnText(Return r);
/// True where the answer will not change: the device cannot, this driver cannot, or we may not.
inline bool never(Return r) { return r == kNotSupported || r == kFunctionNotFound || r == kNoPermission; }
/// True where nothing more will come from this device, or from any: it must be opened again.
inline bool dead(Return r) {
  return r == kUninitialized || r == kDriverNotLoaded || r == kGpuIsLost || r == kResetRequired ||
         r == kLibRmVersionMismatch || r == kUnknownError;
}

/// Value of a field as a double, and how many bits the counter has.
double fieldNumber(const FieldValue& v);
int fieldBits(const FieldValue& v);

}  // namespace tracesmith::nvml
