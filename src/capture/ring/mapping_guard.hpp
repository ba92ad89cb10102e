// Survives rings that are truncated while they are read. A ring is a mapped file of another user: when it is truncated,
// the kernel sends SIGBUS to whoever reads the missing part, and an agent reads the rings of all users. With the guard
// on, empty memory replaces such a ring, and its reader is told. Reading does not become slower.
#pragma once

#include <atomic>
#include <cstddef>

namespace tracesmith::ring {

/// From now on this process survives it. Other faults go to the handler that was installed before. For programs that
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
