#include "capture/probe/cupti_records.hpp"

#include <stdio.h>
#include <string.h>

namespace tracesmith::probe {
namespace {

using namespace cupti;
using ring::Record;
using ring::RingWriter;

/// Ids of strings that repeat, so that they are not built and hashed each time. Only our thread uses it.
template <size_t kSize>
struct Cache {
  struct Entry {
    uint64_t key = 0;
    uint32_t id = 0;
  };
  Entry entries[kSize];
  Entry& at(uint64_t key) { return entries[(key * 0x9e3779b97f4a7c15ull) >> 40 & (kSize - 1)]; }
};

uint32_t launchShape(RingWriter& r, const KernelRecord& k) {
  static Cache<4096> cache;
  uint64_t key = 1;
  for (int64_t v : {k.grid[0], k.grid[1], k.grid[2], k.block[0], k.block[1], k.block[2],
                    static_cast<int32_t>(k.registers), k.static_shared, k.dynamic_shared})
    key = (key ^ static_cast<uint64_t>(v)) * 0x100000001b3ull + (key >> 29);
  auto& entry = cache.at(key);
  if (entry.key != key || entry.id == 0) {
    char text[128];
    int n = snprintf(text, sizeof text, "%d,%d,%d,%d,%d,%d,%d,%d,%d", k.grid[0], k.grid[1], k.grid[2], k.block[0],
                     k.block[1], k.block[2], k.registers, k.static_shared, k.dynamic_shared);
    entry = {key, r.intern(text, static_cast<size_t>(n))};
  }
  return entry.id;
}

uint32_t apiName(RingWriter& r, const Functions& cupti, uint32_t domain, uint32_t cbid) {
  static Cache<2048> cache;
  const uint64_t key = static_cast<uint64_t>(domain) << 32 | cbid | 1ull << 63;
  auto& entry = cache.at(key);
  if (entry.key != key) {
    const char* name = nullptr;
    if (!cupti.GetCallbackName || cupti.GetCallbackName(domain, cbid, &name) != 0 || !name)
      name = domain == 1 ? "driver call" : "runtime call";
    // "cudaLaunchKernel_v7000", "…_ptsz_v7000" and "__cudaLaunchKernel_v13000" are shown as cudaLaunchKernel.
    while (*name == '_') ++name;
    size_t n = strlen(name);
    for (const char* cut = name; (cut = strstr(cut, "_")) != nullptr; ++cut)
      if (strncmp(cut, "_ptsz", 5) == 0 || (cut[1] == 'v' && cut[2] >= '0' && cut[2] <= '9')) {
        n = static_cast<size_t>(cut - name);
        break;
      }
    entry = {key, r.intern(name, n)};
  }
  return entry.id;
}

template <size_t kCount>
bool contains(const CallRange (&ranges)[kCount], uint32_t cbid) {
  for (const CallRange& r : ranges)
    if (cbid >= r.first && cbid <= r.last) return true;
  return false;
}

/// What a call waits for, as synchronisation records name it; nullptr: it does not wait.
const char* waitOf(const ApiRecord& a) {
  const bool driver = a.kind == kDriver;
  if (!(driver ? contains(kWaitDriver, a.cbid) : contains(kWaitRuntime, a.cbid))) return nullptr;
  const uint32_t stream = driver ? 126 : 131, stream_ptsz = driver ? 440 : 239, event = driver ? 121 : 137;
  return a.cbid == stream || a.cbid == stream_ptsz ? "Stream Sync" : a.cbid == event ? "Event Sync" : "Context Sync";
}

const char* memoryKind(uint8_t kind) {
  static const char* const kNames[] = {"Unknown", "Pageable", "Pinned",        "Device",
                                       "Array",   "Managed",  "Device Static", "Managed Static"};
  return kNames[kind < 8 ? kind : 0];
}

uint32_t copyName(RingWriter& r, uint8_t copy, uint8_t from, uint8_t to) {
  static Cache<1024> cache;
  const uint64_t key = 1ull << 63 | static_cast<uint64_t>(copy) << 16 | static_cast<uint64_t>(from) << 8 | to;
  auto& entry = cache.at(key);
  if (entry.key != key) {
    static const char* const kKinds[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                         "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
    char text[96];
    int n = snprintf(text, sizeof text, "Memcpy %s (%s -> %s)", kKinds[copy < 11 ? copy : 0], memoryKind(from),
                     memoryKind(to));
    entry = {key, r.intern(text, static_cast<size_t>(n))};
  }
  return entry.id;
}

/// Whether the times are plausible: both present, in order, not before this process could record and not in the future.
bool goodTimes(const RingWriter& r, uint64_t start, uint64_t end) {
  constexpr uint64_t kTolerance = 1'000'000'000;  // GPU timestamps may differ slightly from our clock
  static uint64_t now = 0;
  if (end > now) now = ring::nowNs() + kTolerance;
  return start != 0 && end >= start && end <= now && start + kTolerance >= r.header().start_ns;
}

// Versions of cuptiGetVersion since which records have these fields.
constexpr uint32_t kGraphNodeSince = 13, kGraphSince = 14;  // CUDA 11.0, 11.1

/// What all work on a GPU has: ours of CUPTI's.
template <typename Work, typename Cupti>
Work workOf(const Cupti& c, uint32_t device, uint32_t name) {
  Work w;
  w.name = name;
  w.start = c.start;
  w.end = c.end;
  w.device = static_cast<uint16_t>(device);
  w.stream = c.stream;
  w.correlation = c.correlation;
  w.context = c.context;
  return w;
}

/// The same with the graph it ran in, where this CUPTI tells it.
template <typename Work, typename Cupti>
Work graphWorkOf(const CuptiSource& source, const Cupti& c, uint32_t name) {
  Work w = workOf<Work>(c, c.device, name);
  if (source.version >= kGraphSince) w.graph = c.graph;
  if (source.version >= kGraphNodeSince) w.graph_node = c.graph_node;
  return w;
}

}  // namespace

void writeRecord(RingWriter& r, const CuptiSource& source, const void* record) {
  Record out{};
  switch (*static_cast<const uint32_t*>(record)) {
    case kConcurrentKernel: {
      const auto& k = *static_cast<const KernelRecord*>(record);
      auto kernel = graphWorkOf<ring::KernelRecord>(source, k, r.intern(k.name));
      kernel.launch = launchShape(r, k);
      out = encode(kernel);
      break;
    }
    case kMemcpy: {
      const auto& m = *static_cast<const MemcpyRecord*>(record);
      auto copy = graphWorkOf<ring::CopyRecord>(source, m, copyName(r, m.copy_kind, m.src_kind, m.dst_kind));
      copy.bytes = m.bytes;
      out = encode(copy);
      break;
    }
    case kMemcpy2: {
      const auto& m = *static_cast<const PeerCopyRecord*>(record);
      auto copy = workOf<ring::CopyRecord>(m, m.src_device, copyName(r, 10, m.src_kind, m.dst_kind));
      copy.bytes = m.bytes;
      copy.from = m.src_device;
      copy.to = m.dst_device;
      out = encode(copy);
      break;
    }
    case kMemset: {
      const auto& m = *static_cast<const MemsetRecord*>(record);
      auto set = graphWorkOf<ring::CopyRecord>(source, m, r.intern("Memset (Device)"));
      set.set = true;
      set.bytes = m.bytes;
      out = encode(set);
      break;
    }
    case kRuntime:
    case kDriver: {
      const auto& a = *static_cast<const ApiRecord*>(record);
      const bool driver = a.kind == kDriver;
      if (const char* wait = source.waits_are_calls ? waitOf(a) : nullptr) {
        out = encode(ring::SyncRecord{
            .name = r.intern(wait), .start = a.start, .end = a.end, .correlation = a.correlation, .thread = a.thread});
        break;
      }
      out = encode(ring::CallRecord{.driver = driver,
                                    .name = apiName(r, source.functions, driver ? 1 : 2, a.cbid),
                                    .start = a.start,
                                    .end = a.end,
                                    .correlation = a.correlation,
                                    .thread = a.thread});
      break;
    }
    case kSynchronization: {
      const auto& s = *static_cast<const SyncRecord*>(record);
      static const char* const kNames[] = {"Synchronization", "Event Sync", "Stream Wait Event", "Stream Sync",
                                           "Context Sync"};
      out = encode(ring::SyncRecord{.name = r.intern(kNames[s.type < 5 ? s.type : 0]),
                                    .start = s.start,
                                    .end = s.end,
                                    .stream = s.stream,
                                    .correlation = s.correlation,
                                    .context = s.context});
      break;
    }
    case kOverhead: {
      const auto& o = *static_cast<const OverheadRecord*>(record);
      static const char* const kNames[] = {
          "Driver Compiler",       "Buffer Flush",        "Instrumentation",         "Resource", "Module Loading",
          "Lazy Function Loading", "Command Buffer Full", "Activity Buffer Request", "UVM Init"};
      const uint32_t i = o.overhead >> 16;
      out = encode(ring::OverheadRecord{
          .name = r.intern(kNames[i < 9 ? i : 0]), .start = o.start, .end = o.end, .thread = o.object_thread});
      break;
    }
    case kGraphTrace: {
      const auto& g = *static_cast<const GraphRecord*>(record);
      auto graph = workOf<ring::GraphRecord>(g, g.device, r.intern("CUDA graph"));
      graph.graph = g.graph;
      out = encode(graph);
      break;
    }
    default:
      r.lose(ring::kUnknownRecord);
      return;
  }
  if (out.start != 0) out.start += static_cast<uint64_t>(source.to_raw_ns);
  if (out.end != 0) out.end += static_cast<uint64_t>(source.to_raw_ns);
  if (!goodTimes(r, out.start, out.end)) {
    r.lose(ring::kBadTime);
    return;
  }
  r.writeGpu(out);
}

}  // namespace tracesmith::probe
