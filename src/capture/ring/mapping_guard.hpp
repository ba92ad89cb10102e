// Survives rings that are cut short under their reader. A ring is a mapped file of somebody else's: who truncates it
// makes the kernel send SIGBUS to whoever reads what is gone, and an agent reads the rings of all users. With the guard
// on, empty memory takes the place of such a ring, and its reader is told. Reading costs nothing more.
#pragma once

#include <atomic>
#include <cstddef>

namespace tracesmith::ring {

/// From now on this process survives it. Faults elsewhere go to the handler that was there before. For programs that
/// read rings of others; never called inside a job.
void surviveCutRings();

/// A mapping that faults may be in. Made before its first read, gone before it is unmapped.
class GuardedMapping {
 public:
  GuardedMapping(void* base, size_t bytes);
  ~GuardedMapping();
  GuardedMapping(const GuardedMapping&) = delete;
  GuardedMapping& operator=(const GuardedMapping&) = delete;

  /// Empty memory has taken its place.
  bool cut() const;

  struct Slot;

 private:
  Slot* slot_;
};

}  // namespace tracesmith::ring
