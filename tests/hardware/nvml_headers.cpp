// Our declaration of NVML, against NVIDIA's own header. Compiled only where that is; nothing to run.
#include <nvml.h>

#include <cstddef>
#include <type_traits>

#include "hardware/nvidia/nvml_abi.hpp"

namespace tracesmith::nvml {
namespace {

#define SAME(ours, field, theirs, their_field)                                                                      \
  static_assert(                                                                                                    \
      offsetof(ours, field) == offsetof(theirs, their_field) && sizeof(ours::field) == sizeof(theirs::their_field), \
      #ours "." #field " is not " #theirs "." #their_field)
#define SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs))

SIZE(PciInfo, nvmlPciInfo_t);
SAME(PciInfo, domain, nvmlPciInfo_t, domain);
SAME(PciInfo, bus, nvmlPciInfo_t, bus);
SAME(PciInfo, device, nvmlPciInfo_t, device);
SAME(PciInfo, bus_id, nvmlPciInfo_t, busId);
SIZE(Memory, nvmlMemory_t);
SAME(Memory, used, nvmlMemory_t, used);
SIZE(MemoryV2, nvmlMemory_v2_t);
SAME(MemoryV2, total, nvmlMemory_v2_t, total);
SAME(MemoryV2, used, nvmlMemory_v2_t, used);
static_assert(kMemoryV2 == nvmlMemory_v2);
SIZE(Utilization, nvmlUtilization_t);
SIZE(ProcessInfo, nvmlProcessInfo_t);
SAME(ProcessInfo, used_memory, nvmlProcessInfo_t, usedGpuMemory);
SAME(ProcessInfo, gpu_instance, nvmlProcessInfo_t, gpuInstanceId);
SIZE(FieldValue, nvmlFieldValue_t);
SAME(FieldValue, scope, nvmlFieldValue_t, scopeId);
SAME(FieldValue, latency_us, nvmlFieldValue_t, latencyUsec);
SAME(FieldValue, type, nvmlFieldValue_t, valueType);
SAME(FieldValue, result, nvmlFieldValue_t, nvmlReturn);
SAME(FieldValue, value, nvmlFieldValue_t, value);
SIZE(EventData, nvmlEventData_t);
SAME(EventData, type, nvmlEventData_t, eventType);
SAME(EventData, data, nvmlEventData_t, eventData);
SIZE(Attributes, nvmlDeviceAttributes_t);
SAME(Attributes, memory_mib, nvmlDeviceAttributes_t, memorySizeMB);
SIZE(GpmMetric, nvmlGpmMetric_t);
SAME(GpmMetric, id, nvmlGpmMetric_t, metricId);
SAME(GpmMetric, result, nvmlGpmMetric_t, nvmlReturn);
SAME(GpmMetric, value, nvmlGpmMetric_t, value);
static_assert(offsetof(GpmMetrics, metrics) == offsetof(nvmlGpmMetricsGet_t, metrics));
static_assert(sizeof(GpmMetrics) >= sizeof(nvmlGpmMetricsGet_t), "newer NVML fills a longer array: raise kGpmMost");
SAME(GpmMetrics, sample2, nvmlGpmMetricsGet_t, sample2);
SIZE(GpmSupport, nvmlGpmSupport_t);

#define CODE(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))
CODE(kUninitialized, NVML_ERROR_UNINITIALIZED);
CODE(kInvalidArgument, NVML_ERROR_INVALID_ARGUMENT);
CODE(kNotSupported, NVML_ERROR_NOT_SUPPORTED);
CODE(kNoPermission, NVML_ERROR_NO_PERMISSION);
CODE(kNotFound, NVML_ERROR_NOT_FOUND);
CODE(kInsufficientSize, NVML_ERROR_INSUFFICIENT_SIZE);
CODE(kDriverNotLoaded, NVML_ERROR_DRIVER_NOT_LOADED);
CODE(kTimeout, NVML_ERROR_TIMEOUT);
CODE(kFunctionNotFound, NVML_ERROR_FUNCTION_NOT_FOUND);
CODE(kGpuIsLost, NVML_ERROR_GPU_IS_LOST);
CODE(kResetRequired, NVML_ERROR_RESET_REQUIRED);
CODE(kLibRmVersionMismatch, NVML_ERROR_LIB_RM_VERSION_MISMATCH);
CODE(kUnknownError, NVML_ERROR_UNKNOWN);
CODE(kEventXid, nvmlEventTypeXidCriticalError);
CODE(kUint, NVML_VALUE_TYPE_UNSIGNED_INT);
CODE(kUlonglong, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
CODE(kSint, NVML_VALUE_TYPE_SIGNED_INT);
CODE(kUshort, NVML_VALUE_TYPE_UNSIGNED_SHORT);
static_assert(kMostNvLinks >= NVML_NVLINK_MAX_LINKS);  // 18 in CUDA 13.0, 36 in later headers
CODE(kFieldMemoryTemp, NVML_FI_DEV_MEMORY_TEMP);
CODE(kFieldNvLinkSpeed, NVML_FI_DEV_NVLINK_GET_SPEED);
CODE(kFieldNvLinkSpeedL0, NVML_FI_DEV_NVLINK_SPEED_MBPS_L0);
CODE(kFieldNvLinkSpeedL6, NVML_FI_DEV_NVLINK_SPEED_MBPS_L6);
CODE(kFieldNvLinkSpeedCommon, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON);
CODE(kFieldNvLinkCount, NVML_FI_DEV_NVLINK_LINK_COUNT);
CODE(kFieldNvLinkTxKib, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX);
CODE(kFieldNvLinkRxKib, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX);
CODE(kFieldNvLinkReplay, NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY);
CODE(kFieldNvLinkRecovery, NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY);
CODE(kFieldNvLinkCrc, NVML_FI_DEV_NVLINK_ERROR_DL_CRC);
CODE(kFieldPcieReplays, NVML_FI_DEV_PCIE_REPLAY_COUNTER);
CODE(kFieldPcieTxBytes, NVML_FI_DEV_PCIE_COUNT_TX_BYTES);
CODE(kFieldPcieRxBytes, NVML_FI_DEV_PCIE_COUNT_RX_BYTES);
CODE(kFieldNvLinkTxBytes, NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES);
CODE(kFieldNvLinkRxBytes, NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES);
CODE(kFieldPolicyPower, NVML_FI_DEV_PERF_POLICY_POWER);
CODE(kFieldPolicyThermal, NVML_FI_DEV_PERF_POLICY_THERMAL);
CODE(kFieldThrottlePowerBrake, NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN);
CODE(kGpmSmUtil, NVML_GPM_METRIC_SM_UTIL);
CODE(kGpmSmOccupancy, NVML_GPM_METRIC_SM_OCCUPANCY);
CODE(kGpmAnyTensor, NVML_GPM_METRIC_ANY_TENSOR_UTIL);
CODE(kGpmDramBw, NVML_GPM_METRIC_DRAM_BW_UTIL);
CODE(kGpmFp64, NVML_GPM_METRIC_FP64_UTIL);
CODE(kGpmFp32, NVML_GPM_METRIC_FP32_UTIL);
CODE(kGpmFp16, NVML_GPM_METRIC_FP16_UTIL);

// Every call takes as many arguments of the same sizes as NVIDIA's.
template <typename R, typename... A>
constexpr size_t arguments(R (*)(A...)) {
  size_t shape = sizeof...(A);
  ((shape = shape * 16 + sizeof(A)), ...);
  return shape;
}
#define CALL(member, theirs) static_assert(arguments(decltype(Functions::member){}) == arguments(&theirs), #theirs)
CALL(driverVersion, nvmlSystemGetDriverVersion);
CALL(count, nvmlDeviceGetCount_v2);
CALL(handle, nvmlDeviceGetHandleByIndex_v2);
CALL(pci, nvmlDeviceGetPciInfo_v3);
CALL(memoryV2, nvmlDeviceGetMemoryInfo_v2);
CALL(utilization, nvmlDeviceGetUtilizationRates);
CALL(temperature, nvmlDeviceGetTemperature);
CALL(clock, nvmlDeviceGetClockInfo);
CALL(throttle, nvmlDeviceGetCurrentClocksEventReasons);
CALL(energy, nvmlDeviceGetTotalEnergyConsumption);
CALL(nvlinkState, nvmlDeviceGetNvLinkState);
CALL(nvlinkRemotePci, nvmlDeviceGetNvLinkRemotePciInfo_v2);
CALL(nvlinkRemoteType, nvmlDeviceGetNvLinkRemoteDeviceType);
CALL(commonAncestor, nvmlDeviceGetTopologyCommonAncestor);
CALL(p2pStatus, nvmlDeviceGetP2PStatus);
CALL(cpuAffinity, nvmlDeviceGetCpuAffinity);
CALL(processes, nvmlDeviceGetComputeRunningProcesses_v3);
CALL(eccErrors, nvmlDeviceGetTotalEccErrors);
CALL(remappedRows, nvmlDeviceGetRemappedRows);
CALL(fieldValues, nvmlDeviceGetFieldValues);
CALL(migMode, nvmlDeviceGetMigMode);
CALL(migHandle, nvmlDeviceGetMigDeviceHandleByIndex);
CALL(eventSetWait, nvmlEventSetWait_v2);
CALL(registerEvents, nvmlDeviceRegisterEvents);
CALL(gpmGet, nvmlGpmSampleGet);
CALL(gpmMetrics, nvmlGpmMetricsGet);

}  // namespace
}  // namespace tracesmith::nvml
