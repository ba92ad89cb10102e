#include "capture/api/cuda_devices.hpp"

#include <cctype>

#include "base/library.hpp"

namespace tracesmith::capture {
namespace {

/// libcuda's functions, or null. Devices are plain numbers; nothing here makes a context.
struct Driver {
  int (*Init)(unsigned) = nullptr;
  int (*GetCount)(int*) = nullptr;
  int (*Get)(int*, int) = nullptr;
  int (*GetName)(char*, int, int) = nullptr;
  int (*TotalMem)(size_t*, int) = nullptr;
  int (*GetAttribute)(int*, int, int) = nullptr;
  int (*GetPciBusId)(char*, int, int) = nullptr;

  Driver() {
    Result<SharedLibrary> library = SharedLibrary::load({"libcuda.so.1"});
    if (!library) return;
    auto find = [&](auto& function, const char* name) { library->find(function, name); };
    find(Init, "cuInit");
    find(GetCount, "cuDeviceGetCount");
    find(Get, "cuDeviceGet");
    find(GetName, "cuDeviceGetName");
    find(TotalMem, "cuDeviceTotalMem_v2");
    find(GetAttribute, "cuDeviceGetAttribute");
    find(GetPciBusId, "cuDeviceGetPCIBusId");
    if (!Init || !GetCount || !Get || !GetName || !TotalMem || !GetAttribute || Init(0) != 0) GetCount = nullptr;
  }
};

const Driver& driver() {
  static const Driver loaded;
  return loaded;
}

// CUdevice_attribute
enum Attribute {
  kWarp = 10,
  kClock = 13,
  kMultiprocessors = 16,
  kMemoryClock = 36,
  kBusBits = 37,
  kMajor = 75,
  kMinor = 76
};

}  // namespace

int cudaDeviceCount() {
  int count = 0;
  return driver().GetCount && driver().GetCount(&count) == 0 ? count : 0;
}

std::vector<DeviceInfo> cudaDevices() {
  std::vector<DeviceInfo> all;
  const Driver& d = driver();
  for (int i = 0; i < cudaDeviceCount(); ++i) {
    int device = 0;
    if (d.Get(&device, i) != 0) continue;
    DeviceInfo info;
    info.device_id = static_cast<uint32_t>(i);
    info.vendor = "NVIDIA";
    char name[256] = {};
    if (d.GetName(name, sizeof name - 1, device) == 0) info.name = name;
    if (char pci[32] = {}; d.GetPciBusId && d.GetPciBusId(pci, sizeof pci - 1, device) == 0)
      for (const char* p = pci; *p; ++p) info.pci_bus_id += static_cast<char>(std::tolower(*p));
    if (size_t bytes = 0; d.TotalMem(&bytes, device) == 0) info.total_memory = bytes;
    auto ask = [&](std::optional<int>& out, Attribute attribute) {
      if (int value = 0; d.GetAttribute(&value, attribute, device) == 0) out = value;
    };
    ask(info.compute_major, kMajor);
    ask(info.compute_minor, kMinor);
    ask(info.multiprocessor_count, kMultiprocessors);
    ask(info.clock_rate_khz, kClock);
    ask(info.memory_clock_khz, kMemoryClock);
    ask(info.memory_bus_bits, kBusBits);
    ask(info.warp_size, kWarp);
    all.push_back(std::move(info));
  }
  return all;
}

}  // namespace tracesmith::capture
