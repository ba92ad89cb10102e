#include "base/temporary_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/file.hpp"

namespace tracesmith {

namespace fs = std::filesystem;

namespace {

constexpr const char* kName = "tracesmith-query-";

/// The folder, open and locked; −1: somebody else has it, or it is not a folder of this user's.
int lockFolder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat opened {
  }, named{};
  if (fd >= 0 && ::fstat(fd, &opened) == 0 && opened.st_uid == ::geteuid() && ::flock(fd, LOCK_EX | LOCK_NB) == 0 &&
      ::stat(path.c_str(), &named) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev)
    return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

/// What processes that were killed left in `parent`.
void removeForgotten(const fs::path& parent) {
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path();
    if (!it->path().filename().string().starts_with(kName)) continue;
    const int lock = lockFolder(path);
    if (lock < 0) continue;
    std::error_code ignored;
    fs::remove_all(path, ignored);
    ::close(lock);
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

Result<TemporaryFolder> TemporaryFolder::create(const std::string& parent) {
  std::error_code error;
  fs::path base = parent.empty() ? fs::temp_directory_path(error) : fs::path(parent);
  if (error) base = "/tmp";
  removeForgotten(base);
  for (int attempt = 0;; ++attempt) {
    std::string name = base / (std::string(kName) + "XXXXXX");
    if (!::mkdtemp(name.data())) return errnoStatus("create a folder like", name);
    TemporaryFolder folder;
    folder.path_ = name;
    folder.lock_ = lockFolder(name);
    // Another process may have found it before it was locked, and remove it. A file system without locks: no matter.
    if (folder.lock_ >= 0 || attempt == 3) return folder;
  }
}

void TemporaryFolder::remove() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  path_.clear();
  if (lock_ >= 0) ::close(std::exchange(lock_, -1));
}

}  // namespace tracesmith
