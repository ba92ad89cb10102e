// Disk: one large file, written and read past the page cache.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/text.hpp"
#include "hardware/bench/bench.hpp"

namespace tracesmith::hardware {
namespace {

constexpr size_t kPiece = 4 << 20;

double secondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Moves all bytes through `transfer(offset)`; bytes per second, or −1.
template <typename Transfer>
double transferAll(uint64_t bytes, Transfer transfer, int fd, bool sync) {
  const double begin = secondsNow();
  for (uint64_t at = 0; at < bytes; at += kPiece)
    if (transfer(static_cast<off_t>(at)) != static_cast<ssize_t>(kPiece)) return -1;
  if (sync && ::fdatasync(fd) != 0) return -1;
  return static_cast<double>(bytes) / (secondsNow() - begin);
}

}  // namespace

void benchDisk(const BenchOptions& o, Capability& out) {
  const std::string path =
      (o.dir.empty() ? std::string(".") : o.dir) + "/tracesmith-bench." + std::to_string(::getpid());
  const uint64_t bytes = std::max<uint64_t>(kPiece, o.disk_bytes / kPiece * kPiece);
  bool direct = true;
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_DIRECT, 0600);
  if (fd < 0 && errno == EINVAL) {
    direct = false;
    fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  }
  if (fd < 0) {
    out.notes.push_back("the disk was not measured: cannot create a file in " + (o.dir.empty() ? "." : o.dir) + ": " +
                        std::strerror(errno));
    return;
  }
  ::unlink(path.c_str());  // gone with us, however we end
  std::unique_ptr<char, decltype(&std::free)> buffer(static_cast<char*>(std::aligned_alloc(4096, kPiece)), &std::free);
  for (size_t i = 0; i < kPiece; ++i) buffer.get()[i] = static_cast<char>(i * 2654435761u >> 13);
  std::vector<double> writes, reads;
  for (int r = 0; r < o.repetitions; ++r) {
    o.progress("disk");
    const double w = transferAll(
        bytes, [&](off_t at) { return ::pwrite(fd, buffer.get(), kPiece, at); }, fd, true);
    if (w < 0) {
      out.notes.push_back("the disk was not measured: writing " + humanBytes(bytes) +
                          " failed: " + std::strerror(errno));
      break;
    }
    writes.push_back(w * 1e-9);
    if (!direct) (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    const double d = transferAll(
        bytes, [&](off_t at) { return ::pread(fd, buffer.get(), kPiece, at); }, fd, false);
    if (d > 0) reads.push_back(d * 1e-9);
  }
  ::close(fd);
  const std::string how =
      humanBytes(bytes) + " in pieces of 4 MiB, " +
      (direct ? "bypassing the page cache (O_DIRECT)" : "the file system has no O_DIRECT: cache dropped");
  if (!writes.empty()) out.set(figure("disk_write_gbps", "GB/s", "", writes, how + ", until the data is on disk"));
  if (!reads.empty()) out.set(figure("disk_read_gbps", "GB/s", "", reads, how));
}

}  // namespace tracesmith::hardware
