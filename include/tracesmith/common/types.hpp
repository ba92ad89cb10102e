// What the profilers hand to programs that link TraceSmith.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tracesmith/common/export.hpp"

namespace tracesmith {

/// ns of the machine's raw clock (CLOCK_MONOTONIC_RAW).
using Timestamp = uint64_t;

enum class EventType : uint8_t {
  Unknown = 0,
  KernelLaunch = 1,    ///< the call on the host
  KernelComplete = 2,  ///< the kernel on the GPU, from start to end
  MemcpyH2D = 3,
  MemcpyD2H = 4,
  MemcpyD2D = 5,  ///< within a GPU or between two
  MemsetDevice = 6,
  StreamSync = 7,
  DeviceSync = 8,
  EventRecord = 9,
  EventSync = 10,
  StreamCreate = 11,
  StreamDestroy = 12,
  ContextCreate = 13,
  ContextDestroy = 14,
  MemAlloc = 15,
  MemFree = 16,
  Marker = 17,
  RangeStart = 18,  ///< with its duration
  RangeEnd = 19,
  NCCLStart = 20,     ///< launched and not seen to end
  NCCLComplete = 21,  ///< on the GPU, from start to end
  Custom = 255,
};
TRACESMITH_API const char* eventTypeName(EventType type);

struct KernelParams {
  uint32_t grid_x = 0, grid_y = 0, grid_z = 0;
  uint32_t block_x = 0, block_y = 0, block_z = 0;
  std::optional<uint32_t> shared_mem_bytes, registers_per_thread;
};

struct MemoryParams {
  uint64_t size_bytes = 0;
  std::optional<uint32_t> src_device, dst_device;  ///< of a copy between GPUs
};

struct TraceEvent {
  EventType type = EventType::Unknown;
  Timestamp timestamp = 0;
  uint64_t duration = 0;  ///< ns; 0 for marks
  uint32_t device_id = 0;
  uint32_t stream_id = 0;
  uint64_t correlation_id = 0;  ///< joins a launch with its kernel or copy; 0: none
  uint32_t thread_id = 0;       ///< of calls and ranges on the host
  std::string name;
  std::optional<KernelParams> kernel_params;
  std::optional<MemoryParams> memory_params;
  std::map<std::string, std::string> metadata;
};

/// One GPU. What could not be read is empty.
struct DeviceInfo {
  uint32_t device_id = 0;
  std::string name, vendor;
  std::string pci_bus_id;                ///< "0000:18:00.0"; empty: not known
  std::optional<uint64_t> total_memory;  ///< bytes
  std::optional<int> compute_major, compute_minor, multiprocessor_count;
  std::optional<int> clock_rate_khz, memory_clock_khz, memory_bus_bits, warp_size;
  bool simulated = false;
};

}  // namespace tracesmith
