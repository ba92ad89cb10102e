// How large a ring may be. The job needs the same file system for its own shared memory (NCCL's, a data loader's), and
// a Docker container has 64 MB of it unless told otherwise.
#pragma once

#include "capture/ring/writer.hpp"

namespace tracesmith::probe {

enum class Room {
  enough,
  little,  // the ring was made smaller
  none,    // not even for the smallest ring
};

/// Makes a ring in this folder small enough. All rings in the folder together may take a quarter of the file system and
/// half of what is free; a process takes its part of that, as the launcher tells the number of processes, else half of
/// what the others left.
Room fitRoom(const char* folder, ring::RingOptions& options);
/// One process after the other makes its ring in a folder, so that each sees what the others took. Waits for a moment
/// at most.
class Turn {
 public:
  explicit Turn(const char* folder);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  int fd_;
};

/// The smallest ring there is.
void makeSmallest(ring::RingOptions& options);

}  // namespace tracesmith::probe
