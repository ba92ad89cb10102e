// Where rings go that have no room in their folder: a folder in /tmp, named after it. Whoever looks into the one also
// looks into the other. libc only: the probe uses it inside a job.
#pragma once

#include <cstddef>

namespace tracesmith::ring {

/// Path of the spare folder. False if there is none: the folder is missing, or on the file system of /tmp itself.
bool spareFolder(const char* folder, char* path, size_t size);
/// Whether it is a folder of the same user as `folder`, and nobody else can enter it: /tmp is everybody's.
bool isGoodSpare(const char* folder, const char* spare);

}  // namespace tracesmith::ring
