// NVML's binary interface as nvml.h declares it, as far as the stand-in answers. Our own declarations are not used, so
// that a mistake in them shows.
#pragma once

#include <cstdint>

namespace fake_nvml {

// Handles.
using Device = void*;
using EventSet = void*;
using GpmSample = void*;

enum Return : int {  // nvmlReturn_t
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kUnknownError = 999,
};

struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};
struct MemoryV2 {  // nvmlMemory_v2_t
  unsigned version;
  unsigned long long total, reserved, free, used;
};
constexpr unsigned kMemoryV2 = 0x02000028;  // nvmlMemory_v2
struct Utilization {                        // nvmlUtilization_t
  unsigned gpu, memory;
};
struct ProcessInfo {  // nvmlProcessInfo_t
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};
enum ValueType : unsigned { kDouble = 0, kUint = 1, kUlong = 2, kUlonglong = 3 };  // nvmlValueType_t
struct FieldValue {                                                                // nvmlFieldValue_t
  unsigned field, scope;
  long long timestamp_us, latency_us;
  unsigned type;
  Return result;
  union {
    double d;
    int si;
    unsigned ui;
    unsigned long long ull;
    long long sll;
    unsigned short us;
  } value;
};
struct EventData {  // nvmlEventData_t
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kEventXid = 8;  // nvmlEventTypeXidCriticalError
struct Attributes {                          // nvmlDeviceAttributes_t
  unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
  unsigned long long memory_mib;
};
struct GpmMetric {  // nvmlGpmMetric_t
  unsigned id;
  Return result;
  double value;
  char *short_name, *long_name, *unit;
};
struct GpmMetrics {  // nvmlGpmMetricsGet_t
  unsigned version, count;
  GpmSample sample1, sample2;
  GpmMetric metrics[333];
};
struct GpmSupport {  // nvmlGpmSupport_t
  unsigned version, supported;
};

constexpr unsigned kFieldNvLinkCount = 91, kFieldNvLinkSpeed = 164;  // NVML_FI_DEV_NVLINK_LINK_COUNT, …_GET_SPEED

}  // namespace fake_nvml
