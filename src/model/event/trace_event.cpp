#include "model/event/trace_event.hpp"

namespace tracesmith::model {
namespace {

using PublicType = tracesmith::EventType;
using RowType = trace::EventType;

uint32_t whole(int32_t v) { return static_cast<uint32_t>(v); }

}  // namespace

PublicType publicType(RowType type, std::string_view name) {
  auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  switch (type) {
    case RowType::kernel:
    case RowType::graph:
      return PublicType::KernelComplete;
    case RowType::memcpy:
      return has("HtoD") ? PublicType::MemcpyH2D : has("DtoH") ? PublicType::MemcpyD2H : PublicType::MemcpyD2D;
    case RowType::memset:
      return PublicType::MemsetDevice;
    case RowType::runtime:
    case RowType::driver:
      if (has("LaunchKernel") || has("GraphLaunch")) return PublicType::KernelLaunch;
      if (has("StreamSynchronize")) return PublicType::StreamSync;
      if (has("DeviceSynchronize")) return PublicType::DeviceSync;
      if (has("EventRecord")) return PublicType::EventRecord;
      if (has("EventSynchronize")) return PublicType::EventSync;
      if (has("Malloc") || has("MemAlloc")) return PublicType::MemAlloc;
      if (has("Free")) return PublicType::MemFree;
      return PublicType::Custom;
    case RowType::sync:
      return has("tream") ? PublicType::StreamSync : PublicType::DeviceSync;
    case RowType::annotation:
    case RowType::gpu_annotation:
      return PublicType::RangeStart;
    case RowType::marker:
      return PublicType::Marker;
    default:
      return PublicType::Custom;
  }
}

std::optional<KernelParams> kernelParams(std::string_view launch) {
  const trace::LaunchShape s = trace::LaunchShape::parse(launch);
  for (const auto& side : {s.grid_x, s.grid_y, s.grid_z, s.block_x, s.block_y, s.block_z})
    if (!side) return {};
  KernelParams p;
  p.grid_x = whole(*s.grid_x), p.grid_y = whole(*s.grid_y), p.grid_z = whole(*s.grid_z);
  p.block_x = whole(*s.block_x), p.block_y = whole(*s.block_y), p.block_z = whole(*s.block_z);
  if (s.registers) p.registers_per_thread = whole(*s.registers);
  // Kineto tells the sum alone, which is kept as the static part.
  if (s.shared_static) p.shared_mem_bytes = whole(*s.shared_static) + whole(s.shared_dynamic.value_or(0));
  return p;
}

}  // namespace tracesmith::model
