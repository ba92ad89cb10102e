// The probe's side of a ring. Used inside somebody else's process: no exceptions, no locks, no allocation after create().
#pragma once

#include "capture/ring/layout.hpp"

namespace tracesmith::ring {

uint64_t nowNs();  ///< CLOCK_MONOTONIC_RAW

struct RingOptions {
  uint32_t lane0_records = 1u << 19;  ///< of the lane that takes the GPU's records: 32 MB
  uint32_t lane_records = 1u << 14;   ///< of every other lane: 1 MB, touched only when used
  uint32_t lanes = 64;
  uint64_t strings_bytes = 16u << 20;
};

/// One ring. A process has at most one; it is never unmapped, so that late callbacks find it.
class RingWriter {
 public:
  /// Creates the file and maps it; nullptr with errno set if it cannot.
  static RingWriter* create(const char* path, const RingOptions& options);

  RingHeader& header() { return *header_; }

  /// Writes one record to the calling thread's lane.
  void write(const Record& record) {
    if (LaneHeader* lane = threadLane()) writeTo(*lane, record);
  }
  /// Writes to the first lane; only the probe's own thread does.
  void writeGpu(const Record& record) { writeTo(*lanes_, record); }

  /// Id of a string, the same for the same bytes. 0 if there is no room.
  uint32_t intern(const char* s, size_t length);
  uint32_t intern(const char* s);

  void lose(Loss cause, uint64_t count = 1) { header_->losses[cause].fetch_add(count, std::memory_order_relaxed); }

 private:
  RingWriter() = default;
  LaneHeader* threadLane();
  LaneHeader* takeLane();
  void writeTo(LaneHeader& lane, const Record& record) {
    const uint64_t head = lane.head.load(std::memory_order_relaxed);
    if (head - lane.tail.load(std::memory_order_acquire) >= lane.records && header_->reader.load(std::memory_order_relaxed)) {
      lane.dropped.fetch_add(1, std::memory_order_relaxed);
      lose(kRingFull);
      return;
    }
    reinterpret_cast<Record*>(base_ + lane.offset)[head & (lane.records - 1)] = record;
    lane.head.store(head + 1, std::memory_order_release);
  }

  char* base_ = nullptr;
  RingHeader* header_ = nullptr;
  LaneHeader* lanes_ = nullptr;
  char* strings_ = nullptr;
  std::atomic<uint64_t>* slots_ = nullptr;  // hash table of interned strings: hash (high 32 bits) and id
};

/// The ring of this process, or nullptr. Set by the probe; the child of a fork starts with none.
extern std::atomic<RingWriter*> g_ring;
/// Forgets the calling thread's lane: for the child of a fork.
void forgetThreadLane();

}  // namespace tracesmith::ring
