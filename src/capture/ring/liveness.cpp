// Whether somebody still writes a ring or reads it, and who. Inside one PID namespace the process id tells; across
// namespaces the locks on the file do, because the kernel drops them with the process.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "base/clock.hpp"
#include "capture/ring/identity.hpp"
#include "capture/ring/reader.hpp"

namespace tracesmith::ring {

namespace {

constexpr uint64_t kFreshNs = 10'000'000'000;  // a probe that wrote so recently runs; a reader attaches within it

bool isHere(uint64_t pid_namespace) { return pid_namespace == 0 || pid_namespace == pidNamespace(); }

bool exists(int64_t pid) {
  return pid > 0 && pid <= INT_MAX && (::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
}

bool isFresh(uint64_t ns) {
  const auto now = static_cast<uint64_t>(rawClock());
  return ns <= now && now - ns < kFreshNs;
}

struct flock readerLock(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return lock;
}

/// The id that a process of this PID namespace has in its own, innermost one.
int64_t innermostId(int64_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream words(line.substr(6));
    int64_t id = 0;
    while (words >> id) {
    }
    return id;
  }
  return 0;
}

/// Who holds a lock on the file, as this PID namespace knows it; 0: nobody that it knows.
int64_t lockHolder(const struct stat& file, int64_t id_inside) {
  char place[64];
  std::snprintf(place, sizeof place, "%02x:%02x:%llu", major(file.st_dev), minor(file.st_dev),
                static_cast<unsigned long long>(file.st_ino));
  std::ifstream in("/proc/locks");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string number, type, how, access, where;
    int64_t pid = 0;
    if (words >> number >> type >> how >> access >> pid >> where && type == "FLOCK" && where == place && pid > 0 &&
        innermostId(pid) == id_inside)
      return pid;
  }
  return 0;
}

}  // namespace

bool RingReader::lockedByWriter() const {
  if (::flock(fd_, LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  ::flock(fd_, LOCK_UN);
  return false;
}

bool RingReader::alive() const {
  const RingHeader& h = *header_;
  if (h.state.load() == State::ended || cut()) return false;
  const bool locked = h.locked != 0 && lockedByWriter();
  if (!isHere(h.pid_namespace))
    return locked || isFresh(h.heartbeat_ns.load()) || (h.locked == 0 && isFresh(h.start_ns));
  if (!exists(h.writer_pid)) return false;
  if (locked || h.writer_start == 0) return true;
  // It could not lock, or it has ended: it is a zombie, or another process has its id now.
  const ProcessFacts facts = processFacts(static_cast<pid_t>(h.writer_pid));
  return facts.state == 0 || (facts.state != 'Z' && facts.start_ticks == h.writer_start);
}

int64_t RingReader::shownPid() const { return header_->simulated ? header_->pid : process().value_or(header_->pid); }

bool RingReader::inOtherNamespace() const { return !cut() && !isHere(header_->pid_namespace); }

std::optional<int64_t> RingReader::process() const {
  const RingHeader& h = *header_;
  if (cut()) return {};
  int64_t pid = h.writer_pid;
  struct stat st;
  if (!isHere(h.pid_namespace)) {
    if (process_ == 0 && ::fstat(fd_, &st) == 0) process_ = lockHolder(st, h.writer_pid);
    pid = process_;
  }
  // The header is its user's word: it must not make us tell about somebody else's process.
  if (!exists(pid) || ::stat(("/proc/" + std::to_string(pid)).c_str(), &st) != 0 || st.st_uid != owner_) return {};
  return pid;
}

void RingReader::attach() {
  // A reader that attaches starts with the records that are still whole. A writer that has not seen the reader yet goes
  // on overwriting for a moment, hence the distance from the oldest record.
  auto skipOverwritten = [&] {
    for (uint32_t i = 0; i < lane_count_; ++i) {
      const uint64_t head = lanes_[i].head.load(std::memory_order_acquire), capacity = shapes_[i].records;
      const uint64_t first = head > capacity ? head - capacity + std::max<uint64_t>(capacity / 16, 1) : 0;
      if (lanes_[i].tail.load(std::memory_order_relaxed) < first)
        lanes_[i].tail.store(first, std::memory_order_release);
    }
  };
  // If the last reader went away without detaching, nothing was overwritten.
  const bool had_reader = header_->reader.load() != 0;
  if (!had_reader) skipOverwritten();
  struct flock lock = readerLock(F_WRLCK);
  (void)::fcntl(fd_, F_OFD_SETLK, &lock);  // refused: another reader of this process has it
  header_->reader_namespace.store(pidNamespace());
  header_->reader.store(static_cast<uint32_t>(::getpid()));
  if (!had_reader) skipOverwritten();
  attached_ = true;
}

void RingReader::detach() {
  struct flock lock = readerLock(F_UNLCK);
  (void)::fcntl(fd_, F_OFD_SETLK, &lock);
  auto own = static_cast<uint32_t>(::getpid());
  if (header_->reader_namespace.load() == pidNamespace()) header_->reader.compare_exchange_strong(own, 0);
  attached_ = false;
}

int64_t RingReader::attachedReader() const {
  const int64_t pid = header_->reader.load();
  if (pid == 0 || isHere(header_->reader_namespace.load())) return exists(pid) ? pid : 0;
  struct flock lock = readerLock(F_WRLCK);
  const bool held = ::fcntl(fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  // It was named when the process started, and finds the ring a moment later.
  return held || isFresh(header_->start_ns) ? pid : 0;
}

}  // namespace tracesmith::ring
