#include "cli/ring_folder.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "capture/collect/collector.hpp"
#include "capture/ring/node_folder.hpp"

namespace tracesmith::cli {

namespace fs = std::filesystem;

void RingFolder::remove(const std::string& path) {
  std::error_code ignored;
  if (const std::string spare = ring::spareOf(path); !spare.empty()) fs::remove_all(spare, ignored);
  fs::remove_all(path, ignored);
}

/// What a `run` that was killed left behind: it keeps memory. Rings somebody still writes to stay.
void RingFolder::removeOld(const std::string& base) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(base, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(ring::kRunPrefix)) continue;
    const int lock = ::open((entry.path() / kLock).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    bool alive = lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) != 0;
    if (lock >= 0) ::close(lock);
    for (const std::string& path : ring::findRings(entry.path()))
      if (auto ring = ring::RingReader::open(path)) alive |= (*ring)->alive();
    if (!alive) remove(entry.path());
  }
}

Status RingFolder::create() {
  Result<std::string> base = ring::ringFolder();
  if (!base) return base.status();
  // One `run` at a time: between making a folder and locking it, the folder would look like one that was left behind.
  const int turn = ::open(base->c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (turn >= 0) (void)::flock(turn, LOCK_EX);
  Status made = makeFolder(*base);
  if (turn >= 0) ::close(turn);
  return made;
}

Status RingFolder::makeFolder(const std::string& base) {
  removeOld(base);
  // Another PID namespace may have the same number.
  std::string path = base + "/" + ring::kRunPrefix + std::to_string(::getpid()) + "-XXXXXX";
  if (!::mkdtemp(path.data())) return Status::io("cannot create " + path + ": " + std::strerror(errno));
  path_ = path;
  lock_ = ::open((fs::path(path) / kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ >= 0) (void)::flock(lock_, LOCK_EX | LOCK_NB);
  return {};
}

std::vector<std::string> ringsBelow(const std::string& folder) {
  std::vector<std::string> found = ring::findRings(folder);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.is_directory(ignored)) {
      std::vector<std::string> more = ring::findRings(entry.path());
      found.insert(found.end(), more.begin(), more.end());
    }
  return found;
}

}  // namespace tracesmith::cli
