#include "cli/python_hooks.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/library.hpp"
#include "capture/collect/collector.hpp"
#include "hardware/capability.hpp"

namespace tracesmith::cli {

Status addPythonHooks() {
  Result<std::string> file = installedFile("tracesmith_hooks/site/sitecustomize.py");
  if (!file) return Status::notFound("torch is not hooked: that needs " + file.status().message());
  const std::string folder = std::filesystem::path(*file).parent_path().string();
  if (folder.find(':') != std::string::npos)
    return Status::invalid("torch is not hooked: the path " + folder + " contains a colon");
  const char* old = std::getenv("PYTHONPATH");
  const std::string path = old && *old ? folder + ":" + old : folder;  // an empty part would be the working folder
  if (path.starts_with(folder + ":" + folder)) return {};              // `run` inside `run`
  ::setenv("PYTHONPATH", path.c_str(), 1);
  // The program may run in another folder.
  std::error_code missing;
  const std::filesystem::path record =
      std::filesystem::absolute(hardware::capabilityPath(capture::hostName()), missing);
  if (std::filesystem::exists(record, missing)) ::setenv("TRACESMITH_CAPABILITY", record.c_str(), 0);
  return {};
}

}  // namespace tracesmith::cli
