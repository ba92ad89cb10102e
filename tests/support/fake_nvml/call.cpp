#include "call.hpp"

#include <sys/stat.h>

#include <chrono>
#include <thread>

namespace fake_nvml {

State g_state;

namespace {

struct timespec g_changed {};
std::string g_path;
off_t g_size = -1;

}  // namespace

void refresh() {
  const char* path = std::getenv("TRACESMITH_FAKE_NVML");
  struct stat s {};
  if (!path || ::stat(path, &s) != 0) return;
  if (g_path == path && s.st_size == g_size && s.st_mtim.tv_sec == g_changed.tv_sec &&
      s.st_mtim.tv_nsec == g_changed.tv_nsec)
    return;
  if (g_path != path) {  // another test
    g_state.readings.clear();
    g_state.told_xid.clear();
  }
  g_state.description = parse(path);
  g_changed = s.st_mtim;
  g_size = s.st_size;
  g_path = path;
}

Call::Call(Device d, const char* name, bool answers_when_lost) {
  int hang = 0;
  {
    std::lock_guard lock(g_state.mutex);
    refresh();
    if (g_state.users == 0 || g_state.description.state != "ok") {
      result = kUninitialized;
      return;
    }
    size_t n = reinterpret_cast<size_t>(d), instance = SIZE_MAX;
    if (n >= kMigBase) {
      instance = n % kMigBase;
      n /= kMigBase;
    }
    if (n == 0 || n > g_state.description.gpus.size()) {
      result = kInvalidArgument;
      return;
    }
    index = n - 1;
    gpu = g_state.description.gpus[index];
    if (instance != SIZE_MAX) {
      if (instance >= gpu.migs.size()) {
        result = kNotFound;
        return;
      }
      mig = &gpu.migs[instance];
    }
    if (gpu.hang_call == name) hang = gpu.hang_ms;
  }
  if (hang > 0) std::this_thread::sleep_for(std::chrono::milliseconds(hang));
  const std::string state = gpu.text("state", "ok");
  if (state == "lost" && !answers_when_lost)
    result = kGpuIsLost;
  else if (state == "reset")
    result = kResetRequired;
  else if (gpu.unsupported.contains(name))
    result = kNotSupported;
  else if (gpu.forbidden.contains(name))
    result = kNoPermission;
}

}  // namespace fake_nvml
