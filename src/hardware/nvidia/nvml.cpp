#include "hardware/nvidia/nvml.hpp"

namespace tracesmith::nvml {

Result<std::shared_ptr<Session>> Session::open(const std::string& library) {
  const std::string name = library.empty() ? "libnvidia-ml.so.1" : library;
  std::shared_ptr<Session> session(new Session);
  Result<SharedLibrary> loaded = SharedLibrary::load({name}, SharedLibrary::Symbols::lazy);
  if (!loaded) return Status::notFound("no NVIDIA driver: " + name + " cannot be loaded");
  session->library_ = *loaded;
  auto find = [&](auto& function, const char* symbol, const char* older) {
    if (!loaded->find(function, symbol) && *older) loaded->find(function, older);
  };
#define FUNCTION(member, symbol, older, arguments) find(session->functions_.member, symbol, older);
  TS_NVML_FUNCTIONS(FUNCTION)
#undef FUNCTION
  Return r = session->call(&Functions::init);
  if (r == kSuccess) return session;
  session->library_->unload();
  session->library_.reset();
  const std::string text = "NVML cannot be started: " + returnText(r);
  return r == kNoPermission ? Status::io(text) : Status::unsupported(text);
}

Session::~Session() {
  if (!library_) return;
  (void)call(&Functions::shutdown);
  library_->unload();  // a new driver brings a new one
}

std::string returnText(Return r) {
  const char* text = "error";
  switch (r) {
    case kSuccess:
      text = "success";
      break;
    case kUninitialized:
      text = "not initialised";
      break;
    case kInvalidArgument:
      text = "invalid argument";
      break;
    case kNotSupported:
      text = "not supported";
      break;
    case kNoPermission:
      text = "permission denied";
      break;
    case kNotFound:
      text = "not found";
      break;
    case kInsufficientSize:
      text = "insufficient size";
      break;
    case kDriverNotLoaded:
      text = "driver not loaded";
      break;
    case kTimeout:
      text = "timeout";
      break;
    case kFunctionNotFound:
      text = "function not found";
      break;
    case kGpuIsLost:
      text = "GPU is lost";
      break;
    case kResetRequired:
      text = "GPU needs a reset";
      break;
    case kLibRmVersionMismatch:
      text = "driver and library versions differ";
      break;
    case kUnknownError:
      text = "unknown error";
      break;
  }
  return std::string(text) + " (" + std::to_string(static_cast<int>(r)) + ")";
}

double fieldNumber(const FieldValue& v) {
  switch (v.type) {
    case kDouble:
      return v.value.d;
    case kUint:
      return v.value.ui;
    case kSint:
      return v.value.si;
    case kUshort:
      return v.value.us;
    case kSlonglong:
      return static_cast<double>(v.value.sll);
    default:
      return static_cast<double>(v.value.ull);
  }
}

int fieldBits(const FieldValue& v) { return v.type == kUint ? 32 : v.type == kUshort ? 16 : 64; }

}  // namespace tracesmith::nvml
