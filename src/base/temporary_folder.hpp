// A folder for files that nobody needs for long.
#pragma once

#include <string>

#include "tracesmith/common/status.hpp"

namespace tracesmith {

/// Only its owner may enter it. Removed with everything in it at the end, or by remove(). It is locked as long as its
/// process lives: what a killed process left behind is removed by the next create() of the same user.
class TemporaryFolder {
 public:
  TemporaryFolder() = default;
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;
  ~TemporaryFolder() { remove(); }

  /// In `parent`; empty: where the system keeps such files (TMPDIR).
  static Result<TemporaryFolder> create(const std::string& parent = {});

  const std::string& path() const { return path_; }
  void remove();

 private:
  std::string path_;  // empty: none
  int lock_ = -1;     // the folder, open and locked
};

}  // namespace tracesmith
