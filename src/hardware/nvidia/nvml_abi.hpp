// NVML's binary interface as we use it, declared by ourselves: no header of NVIDIA's is needed to build.
// tests/hardware/nvml_headers.cpp checks it against nvml.h where that is installed.
#pragma once

#include <cstdint>

namespace tracesmith::nvml {

using Device = void*;
using EventSet = void*;
using GpmSample = void*;

enum Return : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kLibRmVersionMismatch = 18,
  kUnknownError = 999,
};

struct PciInfo {
  char bus_id_legacy[16];
  uint32_t domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct Memory {
  uint64_t total, free, used;
};
struct MemoryV2 {
  uint32_t version;
  uint64_t total, reserved, free, used;
};
constexpr uint32_t kMemoryV2 = sizeof(MemoryV2) | 2u << 24;
struct Utilization {
  uint32_t gpu, memory;
};
struct ProcessInfo {
  uint32_t pid;
  uint64_t used_memory;
  uint32_t gpu_instance, compute_instance;
};
constexpr uint64_t kValueNotAvailable = ~0ull;
enum ValueType : uint32_t { kDouble, kUint, kUlong, kUlonglong, kSlonglong, kSint, kUshort };
struct FieldValue {
  uint32_t field, scope;
  int64_t timestamp_us, latency_us;
  uint32_t type;
  int result;
  union {
    double d;
    int32_t si;
    uint32_t ui;
    uint64_t ull;
    int64_t sll;
    uint16_t us;
  } value;
};
struct EventData {
  Device device;
  uint64_t type, data;
  uint32_t gpu_instance, compute_instance;
};
constexpr uint64_t kEventXid = 8;
struct Attributes {
  uint32_t multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
  uint64_t memory_mib;
};
struct GpmMetric {
  uint32_t id;
  int result;
  double value;
  char *short_name, *long_name, *unit;
};
constexpr uint32_t kGpmMost = 333;  // newest header's length of the array; the driver fills `count` of them
struct GpmMetrics {
  uint32_t version, count;
  GpmSample sample1, sample2;
  GpmMetric metrics[kGpmMost];
};
struct GpmSupport {
  uint32_t version, supported;
};

static_assert(sizeof(PciInfo) == 68 && sizeof(MemoryV2) == 40 && sizeof(ProcessInfo) == 24 && sizeof(FieldValue) == 40);
static_assert(sizeof(EventData) == 32 && sizeof(GpmMetric) == 40 && kMemoryV2 == 0x02000028);

constexpr uint32_t kMostNvLinks = 36;
constexpr uint32_t kAllLinks = ~0u;
enum Field : uint32_t {
  kFieldPolicyPower = 74,
  kFieldPolicyThermal = 75,
  kFieldPolicySyncBoost = 76,
  kFieldMemoryTemp = 82,
  kFieldNvLinkSpeedL0 = 84,  // … L5; L6 to L11 from 132
  kFieldNvLinkSpeedCommon = 90,
  kFieldNvLinkCount = 91,
  kFieldPcieReplays = 94,
  kFieldNvLinkSpeedL6 = 132,
  kFieldNvLinkTxKib = 138,
  kFieldNvLinkRxKib = 139,
  kFieldNvLinkReplay = 161,
  kFieldNvLinkRecovery = 162,
  kFieldNvLinkCrc = 163,
  kFieldNvLinkSpeed = 164,
  kFieldPcieTxBytes = 197,
  kFieldPcieRxBytes = 198,
  kFieldNvLinkTxBytes = 202,
  kFieldNvLinkRxBytes = 204,
  kFieldThrottleSwThermal = 269,
  kFieldThrottleHwThermal = 270,
  kFieldThrottlePowerBrake = 271,
};
enum Gpm : uint32_t {
  kGpmSmUtil = 2,
  kGpmSmOccupancy = 3,
  kGpmAnyTensor = 5,
  kGpmDramBw = 10,
  kGpmFp64 = 11,
  kGpmFp32 = 12,
  kGpmFp16 = 13,
};

// FUNCTION(member, "symbol", "older symbol or nothing", arguments): one line a call. All return a Return.
#define TS_NVML_FUNCTIONS(FUNCTION)                                                                             \
  FUNCTION(init, "nvmlInit_v2", "nvmlInit", (void))                                                             \
  FUNCTION(shutdown, "nvmlShutdown", "", (void))                                                                \
  FUNCTION(driverVersion, "nvmlSystemGetDriverVersion", "", (char*, uint32_t))                                  \
  FUNCTION(cudaVersion, "nvmlSystemGetCudaDriverVersion", "", (int*))                                           \
  FUNCTION(count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", (uint32_t*))                                   \
  FUNCTION(handle, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex", (uint32_t, Device*))          \
  FUNCTION(name, "nvmlDeviceGetName", "", (Device, char*, uint32_t))                                            \
  FUNCTION(uuid, "nvmlDeviceGetUUID", "", (Device, char*, uint32_t))                                            \
  FUNCTION(pci, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", (Device, PciInfo*))                       \
  FUNCTION(memory, "nvmlDeviceGetMemoryInfo", "", (Device, Memory*))                                            \
  FUNCTION(memoryV2, "nvmlDeviceGetMemoryInfo_v2", "", (Device, MemoryV2*))                                     \
  FUNCTION(utilization, "nvmlDeviceGetUtilizationRates", "", (Device, Utilization*))                            \
  FUNCTION(power, "nvmlDeviceGetPowerUsage", "", (Device, uint32_t*))                                           \
  FUNCTION(powerLimit, "nvmlDeviceGetEnforcedPowerLimit", "", (Device, uint32_t*))                              \
  FUNCTION(energy, "nvmlDeviceGetTotalEnergyConsumption", "", (Device, uint64_t*))                              \
  FUNCTION(temperature, "nvmlDeviceGetTemperature", "", (Device, uint32_t, uint32_t*))                          \
  FUNCTION(fan, "nvmlDeviceGetFanSpeed", "", (Device, uint32_t*))                                               \
  FUNCTION(clock, "nvmlDeviceGetClockInfo", "", (Device, uint32_t, uint32_t*))                                  \
  FUNCTION(maxClock, "nvmlDeviceGetMaxClockInfo", "", (Device, uint32_t, uint32_t*))                            \
  FUNCTION(throttle, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",     \
           (Device, uint64_t*))                                                                                 \
  FUNCTION(pcieGeneration, "nvmlDeviceGetCurrPcieLinkGeneration", "", (Device, uint32_t*))                      \
  FUNCTION(pcieLanes, "nvmlDeviceGetCurrPcieLinkWidth", "", (Device, uint32_t*))                                \
  FUNCTION(maxPcieGeneration, "nvmlDeviceGetMaxPcieLinkGeneration", "", (Device, uint32_t*))                    \
  FUNCTION(maxPcieLanes, "nvmlDeviceGetMaxPcieLinkWidth", "", (Device, uint32_t*))                              \
  FUNCTION(nvlinkState, "nvmlDeviceGetNvLinkState", "", (Device, uint32_t, uint32_t*))                          \
  FUNCTION(nvlinkVersion, "nvmlDeviceGetNvLinkVersion", "", (Device, uint32_t, uint32_t*))                      \
  FUNCTION(nvlinkRemotePci, "nvmlDeviceGetNvLinkRemotePciInfo_v2", "", (Device, uint32_t, PciInfo*))            \
  FUNCTION(nvlinkRemoteType, "nvmlDeviceGetNvLinkRemoteDeviceType", "", (Device, uint32_t, uint32_t*))          \
  FUNCTION(commonAncestor, "nvmlDeviceGetTopologyCommonAncestor", "", (Device, Device, uint32_t*))              \
  FUNCTION(p2pStatus, "nvmlDeviceGetP2PStatus", "", (Device, Device, uint32_t, uint32_t*))                      \
  FUNCTION(cpuAffinity, "nvmlDeviceGetCpuAffinity", "", (Device, uint32_t, unsigned long*))                     \
  FUNCTION(computeCapability, "nvmlDeviceGetCudaComputeCapability", "", (Device, int*, int*))                   \
  FUNCTION(busWidth, "nvmlDeviceGetMemoryBusWidth", "", (Device, uint32_t*))                                    \
  FUNCTION(cores, "nvmlDeviceGetNumGpuCores", "", (Device, uint32_t*))                                          \
  FUNCTION(attributes, "nvmlDeviceGetAttributes_v2", "nvmlDeviceGetAttributes", (Device, Attributes*))          \
  FUNCTION(processes, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",     \
           (Device, uint32_t*, ProcessInfo*))                                                                   \
  FUNCTION(eccErrors, "nvmlDeviceGetTotalEccErrors", "", (Device, uint32_t, uint32_t, uint64_t*))               \
  FUNCTION(remappedRows, "nvmlDeviceGetRemappedRows", "", (Device, uint32_t*, uint32_t*, uint32_t*, uint32_t*)) \
  FUNCTION(fieldValues, "nvmlDeviceGetFieldValues", "", (Device, int, FieldValue*))                             \
  FUNCTION(migMode, "nvmlDeviceGetMigMode", "", (Device, uint32_t*, uint32_t*))                                 \
  FUNCTION(maxMigDevices, "nvmlDeviceGetMaxMigDeviceCount", "", (Device, uint32_t*))                            \
  FUNCTION(migHandle, "nvmlDeviceGetMigDeviceHandleByIndex", "", (Device, uint32_t, Device*))                   \
  FUNCTION(gpuInstanceId, "nvmlDeviceGetGpuInstanceId", "", (Device, uint32_t*))                                \
  FUNCTION(computeInstanceId, "nvmlDeviceGetComputeInstanceId", "", (Device, uint32_t*))                        \
  FUNCTION(eventSetCreate, "nvmlEventSetCreate", "", (EventSet*))                                               \
  FUNCTION(eventSetFree, "nvmlEventSetFree", "", (EventSet))                                                    \
  FUNCTION(eventSetWait, "nvmlEventSetWait_v2", "nvmlEventSetWait", (EventSet, EventData*, uint32_t))           \
  FUNCTION(registerEvents, "nvmlDeviceRegisterEvents", "", (Device, uint64_t, EventSet))                        \
  FUNCTION(gpmSupport, "nvmlGpmQueryDeviceSupport", "", (Device, GpmSupport*))                                  \
  FUNCTION(gpmAlloc, "nvmlGpmSampleAlloc", "", (GpmSample*))                                                    \
  FUNCTION(gpmFree, "nvmlGpmSampleFree", "", (GpmSample))                                                       \
  FUNCTION(gpmGet, "nvmlGpmSampleGet", "", (Device, GpmSample))                                                 \
  FUNCTION(gpmMetrics, "nvmlGpmMetricsGet", "", (GpmMetrics*))

/// The calls; those a driver lacks answer kFunctionNotFound.
struct Functions {
#define FUNCTION(member, symbol, older, arguments) Return(*member) arguments = nullptr;
  TS_NVML_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

}  // namespace tracesmith::nvml
