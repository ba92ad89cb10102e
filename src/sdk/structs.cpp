#include "sdk/structs.hpp"

namespace tracesmith::sdk {

void describeSharedStructs(JsonWriter& w) {
  using namespace cluster;
  describeStruct<TraceEvent>(w);
  describeStruct<KernelParams>(w);
  describeStruct<MemoryParams>(w);
  describeStruct<DeviceInfo>(w);
  describeStruct<SimConfig>(w);
  describeStruct<ProfilerConfig>(w);
  describeStruct<MultiGPUConfig>(w);
  describeStruct<NVLinkTransfer>(w);
  describeStruct<NCCLOperation>(w);
  describeStruct<NCCLTrackerConfig>(w);
  describeStruct<NCCLStatistics>(w);
  describeStruct<GPULink>(w);
  describeStruct<GPUTopologyInfo>(w);
}

}  // namespace tracesmith::sdk
