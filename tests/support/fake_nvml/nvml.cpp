// The functions of NVML the project calls, answering from a description.
#include <cstring>

#include "call.hpp"

using namespace fake_nvml;

namespace {

size_t handleNumber(Device d) { return reinterpret_cast<size_t>(d); }

Return copyText(const std::string& s, char* out, uint32_t size) {
  if (s.size() + 1 > size) return kInsufficientSize;
  std::memcpy(out, s.c_str(), s.size() + 1);
  return kSuccess;
}

void fillPci(const std::string& text, PciInfo* out) {
  std::memset(out, 0, sizeof *out);
  fake_nvml::parsePci(text, out->domain, out->bus, out->device);
  std::snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.0", out->domain, out->bus, out->device);
  std::snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "%04X:%02X:%02X.0", out->domain & 0xffff,
                out->bus & 0xff, out->device & 0xff);
}

Return number(Device d, const char* name, uint64_t otherwise, uint32_t* out) {
  Call c(d, name);
  if (c.result == kSuccess) *out = static_cast<uint32_t>(c.gpu.number(name, otherwise));
  return c.result;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT Return nvmlInit_v2() {
  std::lock_guard lock(g_state.mutex);
  refresh();
  if (g_state.description.state != "ok") return kDriverNotLoaded;
  ++g_state.users;
  return kSuccess;
}
EXPORT Return nvmlShutdown() {
  std::lock_guard lock(g_state.mutex);
  if (g_state.users > 0) --g_state.users;
  return kSuccess;
}
EXPORT Return nvmlSystemGetDriverVersion(char* out, uint32_t size) {
  return copyText(g_state.description.driver, out, size);
}
EXPORT Return nvmlSystemGetCudaDriverVersion(int* out) {
  *out = g_state.description.cuda;
  return kSuccess;
}
EXPORT Return nvmlDeviceGetCount_v2(uint32_t* out) {
  std::lock_guard lock(g_state.mutex);
  refresh();
  if (g_state.users == 0 || g_state.description.state != "ok") return kUninitialized;
  *out = static_cast<uint32_t>(g_state.description.gpus.size());
  return kSuccess;
}
EXPORT Return nvmlDeviceGetHandleByIndex_v2(uint32_t index, Device* out) {
  *out = reinterpret_cast<Device>(static_cast<size_t>(index) + 1);
  return Call(*out, "handle").result;
}
EXPORT Return nvmlDeviceGetName(Device d, char* out, uint32_t size) {
  Call c(d, "name", true);
  if (c.result != kSuccess) return c.result;
  return copyText(c.mig ? c.gpu.text("name", "NVIDIA Test") + " MIG " + c.mig->name : c.gpu.text("name", "NVIDIA Test"),
                  out, size);
}
EXPORT Return nvmlDeviceGetUUID(Device d, char* out, uint32_t size) {
  Call c(d, "uuid", true);
  if (c.result != kSuccess) return c.result;
  const std::string uuid = c.gpu.text("uuid", "");
  return copyText(c.mig ? "MIG-" + uuid.substr(4) + "-" + std::to_string(c.mig->gi) : uuid, out, size);
}
EXPORT Return nvmlDeviceGetPciInfo_v3(Device d, PciInfo* out) {
  Call c(d, "pci", true);
  if (c.result == kSuccess) fillPci(c.gpu.text("pci", ""), out);
  return c.result;
}
EXPORT Return nvmlDeviceGetMemoryInfo(Device d, Memory* out) {
  Call c(d, "memory");
  if (c.result != kSuccess) return c.result;
  out->total = c.mig ? c.mig->memory : c.gpu.number("memory", 80ull << 30);
  out->used = c.mig ? c.mig->memory / 4 : c.gpu.number("used", 1ull << 30);
  out->free = out->total - out->used;
  return kSuccess;
}
EXPORT Return nvmlDeviceGetMemoryInfo_v2(Device d, MemoryV2* out) {
  if (out->version != kMemoryV2) return static_cast<Return>(25);
  Memory m{};
  const Return r = nvmlDeviceGetMemoryInfo(d, &m);
  *out = {kMemoryV2, m.total, 0, m.free, m.used};
  return r;
}
EXPORT Return nvmlDeviceGetUtilizationRates(Device d, Utilization* out) {
  Call c(d, "utilization");
  if (c.result != kSuccess) return c.result;
  if (!c.gpu.migs.empty()) return kNotSupported;  // as real ones do while they are split
  out->gpu = static_cast<uint32_t>(c.gpu.number("utilization", 50));
  out->memory = static_cast<uint32_t>(c.gpu.number("memory_utilization", 25));
  return kSuccess;
}
EXPORT Return nvmlDeviceGetPowerUsage(Device d, uint32_t* out) { return number(d, "power", 300000, out); }
EXPORT Return nvmlDeviceGetEnforcedPowerLimit(Device d, uint32_t* out) { return number(d, "power_limit", 700000, out); }
EXPORT Return nvmlDeviceGetTotalEnergyConsumption(Device d, uint64_t* out) {
  Call c(d, "energy");
  if (c.result == kSuccess) *out = c.gpu.number("energy", 123456789);
  return c.result;
}
EXPORT Return nvmlDeviceGetTemperature(Device d, uint32_t, uint32_t* out) { return number(d, "temperature", 45, out); }
EXPORT Return nvmlDeviceGetFanSpeed(Device d, uint32_t* out) { return number(d, "fan", 30, out); }
EXPORT Return nvmlDeviceGetClockInfo(Device d, uint32_t type, uint32_t* out) {
  return number(d, type == 2 ? "memory_clock" : "clock", type == 2 ? 2619 : 1980, out);
}
EXPORT Return nvmlDeviceGetMaxClockInfo(Device d, uint32_t type, uint32_t* out) {
  return nvmlDeviceGetClockInfo(d, type, out);
}
EXPORT Return nvmlDeviceGetCurrentClocksEventReasons(Device d, uint64_t* out) {
  Call c(d, "throttle");
  if (c.result == kSuccess) *out = c.gpu.number("throttle", 0);
  return c.result;
}
static Return pcie(Device d, bool lanes, uint32_t* out) {
  Call c(d, "pcie");
  if (c.result != kSuccess) return c.result;
  const std::string text = c.gpu.text("pcie", "5 x16");
  *out = static_cast<uint32_t>(std::atoi(text.c_str() + (lanes ? text.find('x') + 1 : 0)));
  return kSuccess;
}
EXPORT Return nvmlDeviceGetCurrPcieLinkGeneration(Device d, uint32_t* out) { return pcie(d, false, out); }
EXPORT Return nvmlDeviceGetCurrPcieLinkWidth(Device d, uint32_t* out) { return pcie(d, true, out); }
EXPORT Return nvmlDeviceGetMaxPcieLinkGeneration(Device d, uint32_t* out) { return pcie(d, false, out); }
EXPORT Return nvmlDeviceGetMaxPcieLinkWidth(Device d, uint32_t* out) { return pcie(d, true, out); }

EXPORT Return nvmlDeviceGetNvLinkState(Device d, uint32_t link, uint32_t* out) {
  Call c(d, "nvlink");
  if (c.result != kSuccess) return c.result;
  if (c.gpu.links.empty()) return kNotSupported;
  *out = c.gpu.links.contains(link);
  return kSuccess;
}
EXPORT Return nvmlDeviceGetNvLinkVersion(Device d, uint32_t link, uint32_t* out) {
  Call c(d, "nvlink");
  if (c.result != kSuccess) return c.result;
  if (!c.gpu.links.contains(link)) return kNotSupported;
  *out = c.gpu.links[link].version;
  return kSuccess;
}
EXPORT Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device d, uint32_t link, PciInfo* out) {
  Call c(d, "nvlink");
  if (c.result != kSuccess) return c.result;
  if (!c.gpu.links.contains(link)) return kNotSupported;
  const fake_nvml::Link& l = c.gpu.links[link];
  std::lock_guard lock(g_state.mutex);
  fillPci(l.to_switch ? l.remote_pci : g_state.description.gpus.at(static_cast<size_t>(l.remote_gpu)).text("pci", ""),
          out);
  return kSuccess;
}
EXPORT Return nvmlDeviceGetNvLinkRemoteDeviceType(Device d, uint32_t link, uint32_t* out) {
  Call c(d, "nvlink");
  if (c.result != kSuccess) return c.result;
  if (!c.gpu.links.contains(link)) return kNotSupported;
  *out = c.gpu.links[link].to_switch ? 2 : 0;
  return kSuccess;
}
EXPORT Return nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, uint32_t* out) {
  Call x(a, "ancestor"), y(b, "ancestor");
  if (x.result != kSuccess) return x.result;
  auto level = x.gpu.ancestors.find(static_cast<int>(y.index));
  *out = level == x.gpu.ancestors.end() ? 40 : level->second;
  return y.result;
}
EXPORT Return nvmlDeviceGetP2PStatus(Device a, Device b, uint32_t, uint32_t* out) {
  Call x(a, "p2p"), y(b, "p2p");
  if (x.result != kSuccess) return x.result;
  *out = x.gpu.text("p2p", "yes") == "yes" ? 0 : 1;
  return y.result;
}
EXPORT Return nvmlDeviceGetCpuAffinity(Device d, uint32_t words, unsigned long* out) {
  Call c(d, "cpus");
  if (c.result != kSuccess) return c.result;
  std::memset(out, 0, words * sizeof *out);
  const std::string text = c.gpu.text("cpus", "0-1");
  const int first = std::atoi(text.c_str());
  const size_t dash = text.find('-');
  const int last = dash == std::string::npos ? first : std::atoi(text.c_str() + dash + 1);
  for (int i = first; i <= last && i < static_cast<int>(words * 64); ++i) out[i / 64] |= 1ul << (i % 64);
  return kSuccess;
}
EXPORT Return nvmlDeviceGetCudaComputeCapability(Device d, int* major, int* minor) {
  Call c(d, "cc");
  if (c.result == kSuccess) std::sscanf(c.gpu.text("cc", "9.0").c_str(), "%d.%d", major, minor);
  return c.result;
}
EXPORT Return nvmlDeviceGetMemoryBusWidth(Device d, uint32_t* out) { return number(d, "bus_bits", 5120, out); }
EXPORT Return nvmlDeviceGetNumGpuCores(Device d, uint32_t* out) { return number(d, "cores", 16896, out); }
EXPORT Return nvmlDeviceGetAttributes_v2(Device d, Attributes* out) {
  Call c(d, "attributes");
  if (c.result != kSuccess) return c.result;
  *out = {};
  out->multiprocessors = c.mig ? c.mig->sms : static_cast<uint32_t>(c.gpu.number("sms", 132));
  return kSuccess;
}
EXPORT Return nvmlDeviceGetComputeRunningProcesses_v3(Device d, uint32_t* count, ProcessInfo* out) {
  Call c(d, "processes");
  if (c.result != kSuccess) return c.result;
  const uint32_t room = *count;
  *count = static_cast<uint32_t>(c.gpu.processes.size());
  if (room < *count) return kInsufficientSize;
  for (uint32_t i = 0; i < *count; ++i) out[i] = {c.gpu.processes[i].first, c.gpu.processes[i].second, ~0u, ~0u};
  return kSuccess;
}
EXPORT Return nvmlDeviceGetTotalEccErrors(Device d, uint32_t type, uint32_t, uint64_t* out) {
  Call c(d, "ecc");
  if (c.result == kSuccess) *out = c.gpu.number(type == 0 ? "ecc_corrected" : "ecc_uncorrected", 0);
  return c.result;
}
EXPORT Return nvmlDeviceGetRemappedRows(Device d, uint32_t* corr, uint32_t* unc, uint32_t* pending, uint32_t* failed) {
  Call c(d, "remapped");
  *corr = static_cast<uint32_t>(c.gpu.number("remapped", 0));
  *unc = *pending = *failed = 0;
  return c.result;
}
EXPORT Return nvmlDeviceGetFieldValues(Device d, int count, FieldValue* values) {
  Call c(d, "fields");
  if (c.result != kSuccess) return c.result;
  for (int i = 0; i < count; ++i) {
    FieldValue& v = values[i];
    v.result = kNotSupported;
    if (v.field == kFieldNvLinkCount && !c.gpu.links.empty()) {
      v.type = kUint;
      v.value.ui = c.gpu.links.rbegin()->first + 1;
      v.result = kSuccess;
      continue;
    }
    if (v.field == kFieldNvLinkSpeed && c.gpu.links.contains(v.scope)) {
      v.type = kUint;
      v.value.ui = c.gpu.links[v.scope].speed;
      v.result = kSuccess;
      continue;
    }
    auto f = c.gpu.fields.find({v.field, v.scope});
    if (f == c.gpu.fields.end()) f = c.gpu.fields.find({v.field, ~0u});
    if (f == c.gpu.fields.end()) continue;
    std::lock_guard lock(g_state.mutex);
    const uint64_t n = g_state.readings[{c.index, {v.field, v.scope}}]++;
    const uint64_t value = f->second.value + n * f->second.step;
    v.type = f->second.is_u32 ? kUint : kUlonglong;
    v.value.ull = 0;
    if (f->second.is_u32)
      v.value.ui = static_cast<uint32_t>(value);
    else
      v.value.ull = value;
    v.result = kSuccess;
  }
  return kSuccess;
}
EXPORT Return nvmlDeviceGetMigMode(Device d, uint32_t* now, uint32_t* pending) {
  Call c(d, "mig");
  *now = *pending = !c.gpu.migs.empty();
  return c.result;
}
EXPORT Return nvmlDeviceGetMaxMigDeviceCount(Device d, uint32_t* out) {
  Call c(d, "mig");
  *out = c.gpu.migs.empty() ? 0 : 7;
  return c.result;
}
EXPORT Return nvmlDeviceGetMigDeviceHandleByIndex(Device d, uint32_t i, Device* out) {
  Call c(d, "mig");
  if (c.result != kSuccess) return c.result;
  if (i >= c.gpu.migs.size()) return kNotFound;
  *out = reinterpret_cast<Device>(kMigBase * (c.index + 1) + i);
  return kSuccess;
}
EXPORT Return nvmlDeviceGetGpuInstanceId(Device d, uint32_t* out) {
  Call c(d, "mig");
  if (c.result == kSuccess && c.mig) *out = c.mig->gi;
  return c.mig ? c.result : kNotSupported;
}
EXPORT Return nvmlDeviceGetComputeInstanceId(Device d, uint32_t* out) {
  Call c(d, "mig");
  if (c.result == kSuccess && c.mig) *out = c.mig->ci;
  return c.mig ? c.result : kNotSupported;
}
EXPORT Return nvmlEventSetCreate(EventSet* out) {
  *out = new int(0);
  return kSuccess;
}
EXPORT Return nvmlEventSetFree(EventSet set) {
  delete static_cast<int*>(set);
  return kSuccess;
}
EXPORT Return nvmlDeviceRegisterEvents(Device d, uint64_t, EventSet) { return Call(d, "events").result; }
EXPORT Return nvmlEventSetWait_v2(EventSet, EventData* out, uint32_t) {
  std::lock_guard lock(g_state.mutex);
  refresh();
  if (g_state.description.state != "ok") return kUninitialized;
  for (size_t i = 0; i < g_state.description.gpus.size(); ++i)
    if (const uint64_t xid = g_state.description.gpus[i].number("xid", 0);
        xid != 0 && g_state.told_xid.insert(i).second) {
      *out = {reinterpret_cast<Device>(i + 1), kEventXid, xid, ~0u, ~0u};
      return kSuccess;
    }
  return kTimeout;
}
EXPORT Return nvmlGpmQueryDeviceSupport(Device d, GpmSupport* out) {
  Call c(d, "gpm");
  out->supported = !c.gpu.gpm.empty();
  return c.result;
}
EXPORT Return nvmlGpmSampleAlloc(GpmSample* out) {
  *out = new size_t(0);
  return kSuccess;
}
EXPORT Return nvmlGpmSampleFree(GpmSample s) {
  delete static_cast<size_t*>(s);
  return kSuccess;
}
EXPORT Return nvmlGpmSampleGet(Device d, GpmSample s) {
  Call c(d, "gpm");
  *static_cast<size_t*>(s) = handleNumber(d);
  return c.result;
}
EXPORT Return nvmlGpmMetricsGet(GpmMetrics* m) {
  if (m->version != 1) return static_cast<Return>(25);
  Call c(reinterpret_cast<Device>(*static_cast<size_t*>(m->sample2)), "gpm");
  for (uint32_t i = 0; i < m->count; ++i) {
    auto g = c.gpu.gpm.find(m->metrics[i].id);
    m->metrics[i].result = g == c.gpu.gpm.end() ? kNotSupported : kSuccess;
    m->metrics[i].value = g == c.gpu.gpm.end() ? 0 : g->second;
  }
  return c.result;
}
