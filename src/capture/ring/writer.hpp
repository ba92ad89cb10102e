// The probe's side of a ring. Used inside somebody else's process: no exceptions, no locks, no allocation after
// create().
#pragma once

#include "base/clock.hpp"
#include "model/ring/nccl_records.hpp"

namespace tracesmith::ring {

inline uint64_t nowNs() { return static_cast<uint64_t>(rawClock()); }
int64_t threadId();  ///< gettid(), asked once a thread

struct RingOptions {
  uint32_t lane0_records = 1u << 19;  ///< of the lane that takes the GPU's records: 32 MB
  uint32_t lane_records = 1u << 14;   ///< of every other lane: 1 MB, touched only when used
  uint32_t lanes = 64;
  uint64_t strings_bytes = 16u << 20;
  uint32_t string_slots = 1u << 17;  ///< of the table that finds a string's id, a power of two
  bool grow = false;                 ///< take room for the first lane and the strings when they are used
};

/// One ring. The process's own is never unmapped, so that late callbacks find it.
class RingWriter {
 public:
  /// Creates the file and maps it; nullptr with errno set if it cannot. Room for the first lane and the strings is
  /// taken at once, or as they fill (`grow`); for other lanes when a thread takes one. It is always taken before it is
  /// written to: on a full disk a write to a mapped file would kill the process. The writer lives in `memory`: nullptr
  /// for the one the process itself has.
  static RingWriter* create(const char* path, const RingOptions& options, void* memory = nullptr);

  RingHeader& header() { return *header_; }
  const RingHeader& header() const { return *header_; }

  /// Writes one record to the calling thread's lane.
  void write(const Record& record) {
    if (LaneHeader* lane = threadLane())
      writeTo(*lane, record);
    else
      lose(kNoLane);
  }
  /// Writes to the first lane; only the probe's own thread does.
  void writeGpu(const Record& record) {
    if (lanes_->head.load(std::memory_order_relaxed) < gpu_room_ || growGpu())
      writeTo(*lanes_, record);
    else
      drop(*lanes_);
  }

  /// For a simulation, which plays all threads of a process: takes a lane for a thread; 0 if there is none left. Lanes
  /// are then written by number.
  uint32_t addLane(int64_t tid);
  void writeLane(uint32_t lane, const Record& record) { lane == 0 ? writeGpu(record) : writeTo(lanes_[lane], record); }
  /// Also for the child of a fork: the ring and its lock are the parent's.
  void unmap();
  /// Whether the next record would be lost.
  bool fullLane(uint32_t lane) const { return full(lanes_[lane]); }

  /// Id of a string, the same for the same bytes. 0 if there is no room.
  uint32_t intern(const char* s, size_t length);
  uint32_t intern(const char* s);
  /// The same for a text with numbers in it.
  Name name(const char* s);

  /// Number of the calling thread's lane, taken if it has none yet; 0 if there is none left.
  uint32_t lane() {
    LaneHeader* lane = threadLane();
    return lane ? static_cast<uint32_t>(lane - lanes_) : 0;
  }

  void lose(Loss cause, uint64_t count = 1) { header_->losses[cause].fetch_add(count, std::memory_order_relaxed); }

 private:
  RingWriter() = default;
  LaneHeader* threadLane();
  LaneHeader* takeLane(int64_t tid);
  bool makeRoom(uint64_t offset, uint64_t bytes);
  bool growGpu();
  bool growStrings(uint64_t to);
  void drop(LaneHeader& lane) {
    lane.dropped.fetch_add(1, std::memory_order_relaxed);
    lose(kRingFull);
  }
  bool full(const LaneHeader& lane) const {
    return lane.head.load(std::memory_order_relaxed) - lane.tail.load(std::memory_order_acquire) >= lane.records &&
           header_->reader.load(std::memory_order_relaxed);
  }
  void writeTo(LaneHeader& lane, const Record& record) {
    const uint64_t head = lane.head.load(std::memory_order_relaxed);
    if (full(lane)) return drop(lane);
    // Whoever sees this record over the oldest one also sees the head that says so: snapshots rely on it.
    std::atomic_thread_fence(std::memory_order_release);
    auto* to = reinterpret_cast<uint64_t*>(base_ + lane.offset + (head & (lane.records - 1)) * sizeof(Record));
    // Word by word, as the record was made: wider loads would wait for the caller's stores to reach the cache.
#pragma GCC unroll 8
    for (size_t i = 0; i < sizeof(Record) / sizeof(uint64_t); ++i) {
      uint64_t word;
      __builtin_memcpy(&word, reinterpret_cast<const char*>(&record) + i * sizeof word, sizeof word);
      __atomic_store_n(to + i, word, __ATOMIC_RELAXED);
    }
    lane.head.store(head + 1, std::memory_order_release);
  }

  char path_[512] = {};
  char* base_ = nullptr;
  RingHeader* header_ = nullptr;
  LaneHeader* lanes_ = nullptr;
  char* strings_ = nullptr;
  std::atomic<uint64_t>* slots_ = nullptr;  // hash table of interned strings: hash (high 32 bits) and id
  uint32_t slot_count_ = 0;
  uint64_t gpu_room_ = 0;                   // records of the first lane that have room; UINT64_MAX: all
  uint32_t refused_ = 0;                    // records since there was no more for it
  std::atomic<uint64_t> strings_room_ = 0;  // bytes of strings that have room
};

/// The ring of this process, or nullptr. Set by the probe; the child of a fork starts with none.
extern std::atomic<RingWriter*> g_ring;
/// Forgets the calling thread's lane and id: for the child of a fork.
void forgetThreadLane();

}  // namespace tracesmith::ring
