#include "base/temporary_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/file.hpp"

namespace tracesmith {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

Result<TemporaryFolder> TemporaryFolder::create(const std::string& parent) {
  std::error_code error;
  fs::path base = parent.empty() ? fs::temp_directory_path(error) : fs::path(parent);
  std::string name = (error ? fs::path("/tmp") : base) / "tracesmith-query-XXXXXX";
  if (!::mkdtemp(name.data())) return errnoStatus("create a folder like", name);
  TemporaryFolder folder;
  folder.path_ = name;
  return folder;
}

void TemporaryFolder::remove() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  path_.clear();
}

}  // namespace tracesmith
