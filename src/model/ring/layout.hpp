// The ring: a memory-mapped file per process in which the probe leaves records and from which others read them. The
// kernel keeps it when the process dies. Writers take no lock and allocate nothing; a reader never disturbs
// them.
//
//   page 0    RingHeader   who this is, the control word, losses by cause
//   page 1…   lanes        LaneHeader + records, one writer thread each
//             strings      length-prefixed bytes, only ever appended; an id is the offset of its length
//
// A lane is a ring of fixed-size records. `head` counts records written since the start, `tail` those a reader is done
// with. While a reader is attached a full lane drops and counts; without one it overwrites the oldest: a flight
// recorder.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tracesmith::ring {

constexpr uint64_t kMagic = 0x31474e4952535400;  // "\0TSRING1"
constexpr uint32_t kVersion = 4;
constexpr uint32_t kMaxLanes = 128;
constexpr uint32_t kMaxLaneRecords = 1u << 26;  // 4 GB
constexpr uint32_t kMaxString = 4096;           // bytes
constexpr uint32_t kWatch = 3;                  // of RingHeader::mode
constexpr uint32_t kNoCost = UINT32_MAX;        // of RingHeader::cost_ppm
constexpr uint32_t kMostEvery = 1u << 20;       // of RingHeader::window_every

enum class Kind : uint8_t {
  none = 0,
  kernel,
  memcpy,
  memset,
  runtime,
  driver,
  sync,
  overhead,
  graph,  // one launch of a graph
  range,  // an NVTX or tracesmith.h range
  mark,   // the same without a length
  step,
  counter,
  metadata,
  comm,
  collective,
  p2p,
  nccl_launch,  // of a kernel, copies or a CUDA graph: the operations after it on this lane were in it
  proxy_op,
  thread,          // this lane now belongs to a thread
  gpu_on,          // from `start` on the GPU's work is recorded (again); what was launched before is not
  gpu_off,         // from `start` on it is not: what is launched later leaves no record
  nccl_group,      // a group of NCCL calls begins or has ended; only where somebody wants it
  nccl_time,       // when a launch of NCCL's ran, by CUDA events
  host_operation,  // of a library that uses no device; once when it begins, once when it has ended
  process_group,
  graph_node,  // of a CUDA graph: what it was captured from
};

enum Flag : uint8_t {
  kNotNested = 1,  // of a range: it may end on another thread than it began
  kNumbered = 2,   // the name has numbers: see Name
  kSend = 4,       // of a proxy operation
  kCaptured = 8,   // of a launch or an operation of NCCL: into a CUDA graph
  kGraph = 16,     // of a launch: of a CUDA graph that operations were captured into
  kCopies = 32,    // of a launch: copies do the work instead of a kernel
  kBackward = 64,  // of a graph's node: captured in a backward pass
};

/// One thing that happened. Times are CLOCK_MONOTONIC_RAW ns; 0 = not known. What the other words mean depends on the
/// kind: records.hpp alone knows.
struct alignas(64) Record {
  Kind kind;
  uint8_t flags;
  uint16_t device;
  uint32_t name;  // string id; 0 = none
  uint64_t start, end;
  uint32_t correlation, stream;
  uint64_t arg[4];
};
static_assert(sizeof(Record) == 64);

enum Loss : uint32_t {
  kRingFull,       // a lane had no room while a reader was attached
  kNoLane,         // more threads than lanes
  kNoStringRoom,   // the string area is full: the record is kept, its name is not
  kCuptiDropped,   // CUPTI itself dropped it
  kBadTime,        // zero or impossible timestamps
  kUnknownRecord,  // a kind of record this version does not know
  kSteppedAside,   // another profiler had the activity API
  kNoEvent,        // too many launches of NCCL's had not ended: this one is not timed
  kNoNodeRoom,     // too many nodes of CUDA graphs: what this one was captured from is not known
  kLossCauses
};
constexpr const char* kLossNames[kLossCauses] = {"ring full",        "too many threads",   "no room for names",
                                                 "dropped by CUPTI", "bad timestamp",      "unknown record",
                                                 "another profiler", "no CUDA event left", "too many graph nodes"};

/// What is recorded only while somebody asks for it: bits of RingHeader::wants.
enum Want : uint32_t {
  kWantGroups = 1,      // groups of NCCL calls
  kWantCallStacks = 2,  // who called NCCL
};

enum class State : uint32_t { starting = 0, alive = 1, ended = 2 };

struct RingHeader {
  uint64_t magic;
  uint32_t version, header_bytes;
  uint64_t file_bytes;
  uint32_t lanes, lane0_records, lane_records;
  uint32_t record_bytes;
  uint64_t lanes_offset, strings_offset, strings_bytes;

  int64_t pid, parent_pid;
  int64_t writer_pid;  // who writes it: the process itself, or the simulation it is part of
  uint32_t simulated, pad;
  uint64_t start_ns;       // CLOCK_MONOTONIC_RAW
  uint64_t start_unix_ns;  // CLOCK_REALTIME at the same moment
  std::atomic<State> state;
  std::atomic<uint32_t> reader;  // process id of the attached reader: full lanes drop instead of overwriting; 0 = none
  std::atomic<uint32_t> recording;  // control word: 0 = paused, 1 = recording
  std::atomic<uint32_t> mode;       // 0 light, 1 default, 2 full, 3 watch
  std::atomic<int32_t> rank, world_size, local_rank;
  std::atomic<uint32_t> lanes_used;
  std::atomic<uint64_t> strings_head;
  std::atomic<uint64_t> heartbeat_ns;  // last time the probe's own thread was seen
  std::atomic<uint64_t> losses[16];
  std::atomic<uint32_t> cuda_state;  // 0 no CUDA seen, 1 CUPTI records, 2 CUDA without usable CUPTI
  std::atomic<uint32_t> cupti_version;
  char command[1024];
  char host[256];
  char note[256];  // why something is off, one line
  std::atomic<uint64_t>
      simulated_io_bytes;            // of a simulated process: what it has read and written; of others see /proc
  std::atomic<uint64_t> gpu_off_ns;  // since when the GPU's work is not recorded; 0: it is, or there is no CUDA
  // Of watch mode: the GPU's work is recorded in `window_steps` of every `window_every` steps.
  std::atomic<uint32_t> window_steps, window_every;
  std::atomic<uint32_t> budget_ppm;    // how much longer the job may take for being watched; 0: no limit was given
  std::atomic<uint32_t> cost_ppm;      // how much longer it takes, as measured in it; kNoCost: not known
  std::atomic<uint32_t> window_asked;  // what `window_every` was at first; the budget has doubled it since
  std::atomic<uint32_t> wants;         // bits of Want
  // Who wrote it, told to other PID namespaces too, where the ids above mean other processes. 0: not known.
  uint64_t pid_namespace;                   // of the writer
  uint64_t writer_start;                    // when `writer_pid` began, in the kernel's clock ticks
  std::atomic<uint64_t> reader_namespace;   // PID namespace of `reader`
  uint32_t locked;                          // the writer has a lock (flock) on the file for as long as it runs
  std::atomic<uint32_t> role;               // string: what the process is for, such as "rollout"; 0: nobody said
  std::atomic<uint32_t> job;                // string: the same on all ranks of a job, and on no others; 0: not known
  std::atomic<uint32_t> torch, cuda, nccl;  // strings: versions that the process uses; 0: not known
  // Stacks that the process tells of itself: whoever wants them adds one and wakes those who wait for that (futex). The
  // file is beside the ring: its name and ".stacks".
  std::atomic<uint32_t> stacks_served;                // 1: somebody waits for it
  std::atomic<uint32_t> stacks_wanted, stacks_given;  // given: up to which request
  std::atomic<uint32_t> stacks_error;                 // errno of the last one; 0: the file is there
  // Strings, as the launcher says (model/launcher.hpp); 0: it does not.
  std::atomic<uint32_t> scheduled_job, scheduled_step, pod, pod_namespace;
};
static_assert(sizeof(RingHeader) <= 4096);

struct alignas(64) LaneHeader {
  std::atomic<uint64_t> head;  // records written
  char pad0[56];
  std::atomic<uint64_t> tail;  // records read
  char pad1[56];
  std::atomic<uint64_t> dropped;
  std::atomic<uint32_t> taken;  // a thread writes to it
  uint32_t records;             // capacity, a power of two
  uint64_t offset;              // of its records in the file
  char pad2[40];
};
static_assert(sizeof(LaneHeader) == 192);

}  // namespace tracesmith::ring
