// A call of one of NVML's functions: the GPU it is about, and what may be wrong with it.
#pragma once

#include <map>
#include <mutex>
#include <set>

#include "abi.hpp"
#include "description.hpp"

namespace fake_nvml {

/// What the library knows, for all callers.
struct State {
  std::mutex mutex;  // guards what follows
  Description description;
  int users = 0;
  std::map<std::pair<size_t, std::pair<uint32_t, uint32_t>>, uint64_t> readings;  // of fields that grow
  std::set<size_t> told_xid;
};
extern State g_state;

/// Reads the description again if its file has changed. Under the mutex.
void refresh();

constexpr size_t kMigBase = 1000;  // handles: GPU i is i + 1, instance m of GPU i is kMigBase × (i + 1) + m

/// The GPU behind a handle, after what may be wrong with it. Hangs outside the lock, as a driver would.
struct Call {
  Return result = kSuccess;
  Gpu gpu;
  size_t index = 0;
  const Mig* mig = nullptr;

  Call(Device d, const char* name, bool answers_when_lost = false);
};

}  // namespace fake_nvml
