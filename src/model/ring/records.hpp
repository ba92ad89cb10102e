// What the records of a ring mean: one struct of named fields for each kind, and how it is packed into the 64 bytes of
// a Record. Nobody else looks into a record's words. The probe uses this inside somebody else's process: no allocation,
// nothing beyond libc, and encode() costs no more than filling the record by hand.
//
// Names and other texts are string ids of the ring; 0 = none. Devices, streams, correlations and contexts are CUPTI's.
#pragma once

#include <bit>

#include "model/ring/layout.hpp"

namespace tracesmith::ring {

constexpr uint64_t kUnknown = UINT64_MAX;
constexpr uint32_t kNoDevice = UINT32_MAX, kNoStream = UINT32_MAX;

namespace words {
[[gnu::always_inline]] constexpr uint64_t pair(uint32_t low, uint32_t high) {
  return low | static_cast<uint64_t>(high) << 32;
}
constexpr uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }
constexpr uint32_t high(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

constexpr uint64_t kMost48 = (1ull << 48) - 1;
/// 48 bits hold 78 hours in ns; the largest value stands for what was not measured.
[[gnu::always_inline]] constexpr uint64_t to48(uint64_t v) {
  return v == kUnknown ? kMost48 : v < kMost48 ? v : kMost48 - 1;
}
constexpr uint64_t from48(uint64_t v) { return (v & kMost48) == kMost48 ? kUnknown : v & kMost48; }
}  // namespace words

/// A name that may have numbers in it: kNumber in its string stands for each. "step 12" and "step 13" are one string: a
/// job that runs for weeks would fill the strings with its numbers.
constexpr char kNumber = '\1';
constexpr int kMostNumbers = 4;
struct Name {
  uint32_t id = 0;
  bool numbered = false;
  uint32_t numbers[kMostNumbers] = {};
};

struct KernelRecord {
  uint32_t name = 0;
  uint32_t launch = 0;  // text of its launch shape
  uint64_t start = 0, end = 0;
  uint16_t device = 0;
  uint32_t stream = 0, correlation = 0, context = 0;
  uint32_t graph = 0;  // 0: in none
  uint64_t graph_node = 0;
};
[[gnu::always_inline]] constexpr Record encode(const KernelRecord& k) {
  return {Kind::kernel,  0,        k.device,
          k.name,        k.start,  k.end,
          k.correlation, k.stream, {words::pair(k.launch, k.graph), k.graph_node, k.context, 0}};
}
constexpr KernelRecord kernelOf(const Record& r) {
  return {.name = r.name,
          .launch = words::low(r.arg[0]),
          .start = r.start,
          .end = r.end,
          .device = r.device,
          .stream = r.stream,
          .correlation = r.correlation,
          .context = words::low(r.arg[2]),
          .graph = words::high(r.arg[0]),
          .graph_node = r.arg[1]};
}

/// A copy, or (set) a memset.
struct CopyRecord {
  bool set = false;
  uint32_t name = 0;  // of a copy: from where to where
  uint64_t start = 0, end = 0;
  uint64_t bytes = 0;
  uint16_t device = 0;
  uint32_t stream = 0, correlation = 0, context = 0;
  uint32_t graph = 0;
  uint64_t graph_node = 0;
  uint32_t from = kNoDevice, to = kNoDevice;  // of a copy between GPUs
};
[[gnu::always_inline]] constexpr Record encode(const CopyRecord& c) {
  return {c.set ? Kind::memset : Kind::memcpy,
          0,
          c.device,
          c.name,
          c.start,
          c.end,
          c.correlation,
          c.stream,
          {c.bytes, c.graph_node, words::pair(c.context, c.graph), words::pair(c.to + 1, c.from + 1)}};
}
constexpr CopyRecord copyOf(const Record& r) {
  return {.set = r.kind == Kind::memset,
          .name = r.name,
          .start = r.start,
          .end = r.end,
          .bytes = r.arg[0],
          .device = r.device,
          .stream = r.stream,
          .correlation = r.correlation,
          .context = words::low(r.arg[2]),
          .graph = words::high(r.arg[2]),
          .graph_node = r.arg[1],
          .from = words::high(r.arg[3]) - 1,
          .to = words::low(r.arg[3]) - 1};
}

/// A call of CUDA's runtime or (driver) of its driver.
struct CallRecord {
  bool driver = false;
  uint32_t name = 0;
  uint64_t start = 0, end = 0;
  uint32_t correlation = 0;
  uint32_t thread = 0;
};
[[gnu::always_inline]] constexpr Record encode(const CallRecord& c) {
  return {c.driver ? Kind::driver : Kind::runtime, 0, 0, c.name, c.start, c.end, c.correlation, 0, {0, 0, 0, c.thread}};
}
constexpr CallRecord callOf(const Record& r) {
  return {r.kind == Kind::driver, r.name, r.start, r.end, r.correlation, words::low(r.arg[3])};
}

/// The host waits for the GPU.
struct SyncRecord {
  uint32_t name = 0;
  uint64_t start = 0, end = 0;
  uint32_t stream = kNoStream;  // kNoStream: for all of them, or not known
  uint32_t correlation = 0, context = 0;
  uint32_t thread = 0;  // that waits; 0: not known
};
[[gnu::always_inline]] constexpr Record encode(const SyncRecord& s) {
  return {Kind::sync, 0, 0, s.name, s.start, s.end, s.correlation, s.stream, {0, 0, s.context, s.thread}};
}
constexpr SyncRecord syncOf(const Record& r) {
  return {r.name, r.start, r.end, r.stream, r.correlation, words::low(r.arg[2]), words::low(r.arg[3])};
}

/// What CUPTI itself costs the job.
struct OverheadRecord {
  uint32_t name = 0;
  uint64_t start = 0, end = 0;
  uint32_t thread = 0;
};
[[gnu::always_inline]] constexpr Record encode(const OverheadRecord& o) {
  return {Kind::overhead, 0, 0, o.name, o.start, o.end, 0, 0, {0, 0, 0, o.thread}};
}
constexpr OverheadRecord overheadOf(const Record& r) { return {r.name, r.start, r.end, words::low(r.arg[3])}; }

/// One launch of a CUDA graph.
struct GraphRecord {
  uint32_t name = 0;
  uint64_t start = 0, end = 0;
  uint16_t device = 0;
  uint32_t stream = 0, correlation = 0, context = 0;
  uint32_t graph = 0;
};
[[gnu::always_inline]] constexpr Record encode(const GraphRecord& g) {
  return {Kind::graph,   0,        g.device,
          g.name,        g.start,  g.end,
          g.correlation, g.stream, {words::pair(0, g.graph), 0, g.context, 0}};
}
constexpr GraphRecord graphOf(const Record& r) {
  return {r.name, r.start, r.end, r.device, r.stream, r.correlation, words::low(r.arg[2]), words::high(r.arg[0])};
}

/// A range of NVTX or tracesmith.h, or (mark) a moment.
struct RangeRecord {
  bool mark = false;
  bool nested = true;  // false: it may end on another thread than it began
  Name name;
  uint64_t start = 0, end = 0;
  uint32_t domain = 0;
  uint32_t thread = 0;  // 0: the lane's
};
[[gnu::always_inline]] constexpr Record encode(const RangeRecord& r) {
  return {r.mark ? Kind::mark : Kind::range,
          static_cast<uint8_t>((r.nested ? 0 : kNotNested) | (r.name.numbered ? kNumbered : 0)),
          0,
          r.name.id,
          r.start,
          r.end,
          0,
          0,
          {r.domain, words::pair(r.name.numbers[0], r.name.numbers[1]),
           words::pair(r.name.numbers[2], r.name.numbers[3]), r.thread}};
}
constexpr RangeRecord rangeOf(const Record& r) {
  return {.mark = r.kind == Kind::mark,
          .nested = !(r.flags & kNotNested),
          .name = {r.name,
                   (r.flags & kNumbered) != 0,
                   {words::low(r.arg[1]), words::high(r.arg[1]), words::low(r.arg[2]), words::high(r.arg[2])}},
          .start = r.start,
          .end = r.end,
          .domain = words::low(r.arg[0]),
          .thread = words::low(r.arg[3])};
}

/// A step begins (end = 0), and once more when it has ended; with no length if it turned out to be none.
struct StepRecord {
  int64_t step = 0;
  uint64_t start = 0, end = 0;
};
[[gnu::always_inline]] constexpr Record encode(const StepRecord& s) {
  return {Kind::step, 0, 0, 0, s.start, s.end, 0, 0, {static_cast<uint64_t>(s.step), 0, 0, 0}};
}
constexpr StepRecord stepOf(const Record& r) { return {static_cast<int64_t>(r.arg[0]), r.start, r.end}; }

struct CounterRecord {
  uint32_t name = 0;
  uint64_t start = 0;
  double value = 0;
  uint32_t series = 0;  // 0: it has one
  int64_t step = -1;    // -1: that of its time
};
[[gnu::always_inline]] constexpr Record encode(const CounterRecord& c) {
  return {Kind::counter,
          0,
          0,
          c.name,
          c.start,
          0,
          0,
          0,
          {std::bit_cast<uint64_t>(c.value), c.series, static_cast<uint64_t>(c.step + 1), 0}};
}
constexpr CounterRecord counterOf(const Record& r) {
  return {r.name, r.start, std::bit_cast<double>(r.arg[0]), words::low(r.arg[1]), static_cast<int64_t>(r.arg[2]) - 1};
}

struct MetadataRecord {
  uint32_t key = 0, value = 0;
  uint64_t start = 0;
};
[[gnu::always_inline]] constexpr Record encode(const MetadataRecord& m) {
  return {Kind::metadata, 0, 0, m.key, m.start, 0, 0, 0, {m.value, 0, 0, 0}};
}
constexpr MetadataRecord metadataOf(const Record& r) { return {r.name, words::low(r.arg[0]), r.start}; }

/// From now on this lane is a thread's.
struct ThreadRecord {
  int64_t thread = 0;
  uint64_t start = 0;
};
[[gnu::always_inline]] constexpr Record encode(const ThreadRecord& t) {
  return {Kind::thread, 0, 0, 0, t.start, 0, 0, 0, {static_cast<uint64_t>(t.thread), 0, 0, 0}};
}
constexpr ThreadRecord threadOf(const Record& r) { return {static_cast<int64_t>(r.arg[0]), r.start}; }

/// From `start` on the GPU's work is recorded (again), or (off) no longer.
struct GpuOnRecord {
  bool off = false;
  uint64_t start = 0;
};
[[gnu::always_inline]] constexpr Record encode(const GpuOnRecord& g) {
  return {g.off ? Kind::gpu_off : Kind::gpu_on, 0, 0, 0, g.start, 0, 0, 0, {0, 0, 0, 0}};
}
constexpr GpuOnRecord gpuOnOf(const Record& r) { return {r.kind == Kind::gpu_off, r.start}; }

}  // namespace tracesmith::ring
