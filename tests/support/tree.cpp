#include "support/tree.hpp"

#include <filesystem>
#include <sstream>

#include "support/process.hpp"

namespace tracesmith::test {

void makeTree(const std::string& name, const std::string& root) {
  namespace fs = std::filesystem;
  std::istringstream in(readFile(TRACESMITH_SOURCE_DIR "/tests/data/hardware/trees/" + name + ".txt"));
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t link = line.find(" -> "), equals = line.find(" =");
    const bool is_link = link != std::string::npos && (equals == std::string::npos || link < equals);
    const fs::path path = fs::path(root) / line.substr(0, is_link ? link : equals);
    fs::create_directories(path.parent_path());
    if (is_link) {
      const std::string target = line.substr(link + 4);
      if (target[0] != '/') fs::create_directories(path.parent_path() / target);
      fs::create_symlink(target, path);
      continue;
    }
    std::string content = equals + 3 <= line.size() ? line.substr(equals + 3) : "";
    for (size_t at = 0; (at = content.find("\\n", at)) != std::string::npos; ++at) content.replace(at, 2, "\n");
    writeFile(path, content + "\n");
  }
}

std::string nvmlDescription(const std::string& name) {
  return TRACESMITH_SOURCE_DIR "/tests/data/hardware/nvml/" + name + ".txt";
}

std::string fakeNvml() { return TRACESMITH_BUILD_DIR "/lib/tests/libnvidia-ml.so.1"; }

}  // namespace tracesmith::test
