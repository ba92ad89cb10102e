#include "capture/probe/room.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "model/launcher.hpp"

namespace tracesmith::probe {
namespace {

constexpr uint32_t kLeastRecords = 1u << 14;    // 1 MB
constexpr uint32_t kLeastInLane = 1u << 8;      // 16 KB
constexpr uint32_t kFewLanes = 32;              // one a thread
constexpr uint64_t kLeastStrings = 512u << 10;  // names of kernels
constexpr uint64_t kSmallStrings = 4u << 20;

/// What a ring takes at most.
uint64_t bytesOf(uint64_t lane0_records, uint64_t lanes, uint64_t lane_records, uint64_t strings) {
  return (lane0_records + (lanes - 1) * lane_records) * sizeof(ring::Record) + strings;
}
uint64_t bytesOf(const ring::RingOptions& o) {
  return bytesOf(o.lane0_records, o.lanes, o.lane_records, o.strings_bytes);
}

struct Others {
  uint64_t rings = 0, bytes = 0;
};

/// Rings that are there, with what they may still grow to.
Others othersIn(const char* folder) {
  Others all;
  DIR* dir = opendir(folder);
  if (!dir) return all;
  while (const dirent* entry = readdir(dir)) {
    const size_t n = strlen(entry->d_name);
    if (n < 5 || strcmp(entry->d_name + n - 5, ".ring") != 0) continue;
    const int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    alignas(ring::RingHeader) char page[sizeof(ring::RingHeader)];
    if (read(fd, page, sizeof page) == static_cast<ssize_t>(sizeof page)) {
      const auto* h = reinterpret_cast<const ring::RingHeader*>(page);
      ++all.rings;
      if (h->lanes > 0) all.bytes += bytesOf(h->lane0_records, h->lanes, h->lane_records, h->strings_bytes);
    }
    close(fd);
  }
  closedir(dir);
  return all;
}

/// Processes on this node, as launchers tell; 0: not known.
uint64_t localSize() {
  for (const char* const* name = model::launcher::kLocalSize; *name; ++name)
    if (const char* v = getenv(*name); v && *v >= '1' && *v <= '9') return strtoull(v, nullptr, 10);
  return 0;
}

}  // namespace

Turn::Turn(const char* folder) : fd_(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  const timespec moment{0, 1'000'000};
  for (int i = 0; i < 200 && fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) != 0; ++i) nanosleep(&moment, nullptr);
}

Turn::~Turn() {
  if (fd_ >= 0) close(fd_);
}

void makeSmallest(ring::RingOptions& o) {
  o.lane0_records = o.lane0_records < kLeastRecords ? o.lane0_records : kLeastRecords;
  o.lane_records = kLeastInLane;
  o.lanes = kFewLanes;
  o.strings_bytes = kLeastStrings;
}

Room fitRoom(const char* folder, ring::RingOptions& o) {
  struct statvfs fs;
  if (statvfs(folder, &fs) != 0 || fs.f_frsize == 0 || fs.f_blocks == 0) return Room::enough;
  const uint64_t quarter = static_cast<uint64_t>(fs.f_blocks) * fs.f_frsize / 4;
  const uint64_t half_free = static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize / 2;
  const Others others = othersIn(folder);
  const uint64_t left = quarter > others.bytes ? quarter - others.bytes : 0;
  const uint64_t processes = localSize();
  uint64_t room = left / (processes > others.rings ? processes - others.rings : 2);
  if (half_free < room) room = half_free;
  if (bytesOf(o) <= room) return Room::enough;
  o.lanes = kFewLanes;
  o.strings_bytes = kSmallStrings;
  while (bytesOf(o) > room) {
    if (o.lane_records > kLeastInLane && o.lane_records * (o.lanes - 1) > o.lane0_records / 4)
      o.lane_records /= 2;
    else if (o.strings_bytes > kLeastStrings && o.strings_bytes > o.lane0_records * sizeof(ring::Record) / 4)
      o.strings_bytes /= 2;
    else if (o.lane0_records > kLeastRecords)
      o.lane0_records /= 2;
    else
      break;
  }
  if (bytesOf(o) <= room) return Room::little;
  makeSmallest(o);
  return bytesOf(o) <= room ? Room::little : Room::none;
}

}  // namespace tracesmith::probe
