// Where a thread may be made to run something of ours: where it holds no lock that loading a library needs.
#pragma once

#include <string>
#include <vector>

#include "process/stopped.hpp"
#include "process/unwind.hpp"

namespace tracesmith::process {

enum class Place {
  waits,    ///< in a call of the kernel, for something that programs wait for, outside the allocator and the loader
  program,  ///< in code of the program or its libraries, not in the C library, the allocator or the loader
  unsafe,   ///< in one of these, or it cannot be told
  loader,   ///< in the loader: it may hold the lock that others need to load a library
};

/// `complete`: the frames lead to where the thread began.
Place placeOf(const std::vector<NativeFrame>& frames, bool complete, const Snapshot& snapshot);

/// By the name of the file: the C library, and the loader.
bool isLibc(const std::string& path);
bool isLoader(const std::string& path);

}  // namespace tracesmith::process
