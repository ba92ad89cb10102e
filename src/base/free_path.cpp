#include "base/free_path.hpp"

#include <filesystem>

namespace tracesmith {

std::string freePath(const std::string& stem, const std::string& ending) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::string path = stem + ending;
  for (int n = 2; fs::exists(fs::symlink_status(path, error)); ++n) path = stem + "-" + std::to_string(n) + ending;
  return path;
}

}  // namespace tracesmith
