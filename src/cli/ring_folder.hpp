// Where the rings of a job under `tracesmith run` are.
#pragma once

#include <unistd.h>

#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::cli {

/// A folder for the rings of one job, removed at the end.
class RingFolder {
 public:
  ~RingFolder() {
    if (!path_.empty()) remove(path_);
    if (lock_ >= 0) ::close(lock_);
  }
  Status create();
  const std::string& path() const { return path_; }

 private:
  Status makeFolder(const std::string& base);
  static void remove(const std::string& path);
  static void removeOld(const std::string& base);
  std::string path_;
  static constexpr const char* kLock = "lock";
  int lock_ = -1;  // on a file in the folder: a `run` in another PID namespace sees that this one is there
};

/// Rings in a folder and in the folders of `run` in it.
std::vector<std::string> ringsBelow(const std::string& folder);

}  // namespace tracesmith::cli
