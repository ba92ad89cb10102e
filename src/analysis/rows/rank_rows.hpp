// The events of one process at a time: what the single-rank analyses work on. Memory holds a few processes, not the
// trace.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trace/name_numbers.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

/// Something that ran on the device: kernel, copy, set, or a wait with a stream.
struct DeviceEvent {
  int64_t ts, end;
  int64_t correlation;  ///< kNull: none
  uint32_t name;
  uint32_t shape;  ///< launch shape as a name, or kNoName
  int32_t stream;  ///< index in RankRows::streams
  trace::EventType type;
};

/// A host event with a correlation id: the call that launched something.
struct HostCall {
  int64_t ts, end;
  int64_t correlation;
  uint32_t name;
  int32_t thread;  ///< index in RankRows::threads; −1: not known
};

/// A host range or operator whose name says a phase of training, as `wanted` chose.
struct HostRange {
  int64_t ts, end;
  uint32_t name;
};

/// One process: its rank, or −1 − pid where no rank is known.
struct RankRows {
  int64_t process = 0;
  std::vector<DeviceEvent> device;  ///< by ts
  std::vector<HostCall> calls;      ///< by ts
  std::vector<HostRange> ranges;    ///< by ts
  std::vector<HostRange> work;      ///< by ts: operators, where asked for
  std::vector<int64_t> streams, threads;
  int64_t first = INT64_MAX, last = INT64_MIN;  ///< of all its events with a duration

  int64_t rank() const { return process >= 0 ? process : trace::kNull; }
};

struct RankRowsOptions {
  size_t threads = 0;                                   ///< 0: all cores
  size_t memory_bytes = 768ull << 20;                   ///< for the rows held at one time
  const std::vector<uint8_t>* wanted_ranges = nullptr;  ///< by name: 1 keeps host ranges and operators of that name
  bool host_work = false;                               ///< also keep the other operators of the host
  std::function<void(uint64_t done, uint64_t total)> progress;  ///< rows; called by one thread at a time
};

/// Visits every process once, on one of the threads (`worker` says which). Damaged blocks are left out.
using RankVisitor = std::function<void(RankRows& rows, size_t worker)>;
Status eachRank(const trace::Reader& reader, const trace::NameNumbers& names, const RankRowsOptions& options,
                const RankVisitor& visit);

/// False: the trace has nothing that ran on a device.
bool hasDeviceWork(const trace::Reader& reader);
/// Where the work of a trace ran. `lost`: the host launched kernels, but the trace has nothing that ran on a device: it
/// is cut short, or the GPU was not recorded.
enum class WorkPlace : uint8_t { device, host, lost };
WorkPlace workPlaceOf(const trace::Reader& reader, const trace::NameNumbers& names);

size_t threadsOf(size_t asked);

}  // namespace tracesmith::analysis
