#include "capture/collect/job_environment.hpp"

#include <unistd.h>

#include <filesystem>

#include "base/library.hpp"
#include "capture/collect/collector.hpp"
#include "hardware/capability.hpp"

namespace tracesmith::capture {
namespace {

std::string valueOf(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

}  // namespace

Environment ownEnvironment() {
  Environment all;
  for (char** variable = ::environ; variable && *variable; ++variable) {
    const std::string text = *variable;
    if (const size_t equals = text.find('='); equals != std::string::npos && equals > 0)
      all.try_emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

std::vector<std::string> addProbe(const ProbeUse& use, Environment& e) {
  Result<std::string> file = installedFile("libtracesmith_probe.so");
  if (!file) return {"recording needs " + file.status().message()};
  const std::string& probe = *file;
  std::vector<std::string> missing;
  auto taken = [&](const char* name) {
    const std::string value = valueOf(e, name);
    return !value.empty() && value != probe;
  };
  if (taken("CUDA_INJECTION64_PATH"))
    e["TRACESMITH_NEXT_CUDA_INJECTION"] = e["CUDA_INJECTION64_PATH"];  // it is called after us
  e["CUDA_INJECTION64_PATH"] = probe;
  if (taken("NCCL_PROFILER_PLUGIN"))
    missing.push_back("NCCL_PROFILER_PLUGIN is already set: collectives are not recorded");
  else
    e["NCCL_PROFILER_PLUGIN"] = probe;
  if (taken("NVTX_INJECTION64_PATH"))
    missing.push_back("NVTX_INJECTION64_PATH is already set: NVTX ranges are not recorded");
  else
    e["NVTX_INJECTION64_PATH"] = probe;
  const std::string preload = valueOf(e, "LD_PRELOAD");
  if (probe.find_first_of(" :") != std::string::npos)
    missing.push_back(
        "the path " + probe +
        " contains a blank or a colon, so the probe cannot be preloaded: tracesmith.h has no effect in the command");
  else
    e["LD_PRELOAD"] = preload.empty() ? probe : probe + ":" + preload;
  e["TRACESMITH_PROBE"] = probe;
  e["TRACESMITH_DIR"] = use.folder;
  e["TRACESMITH_MODE"] = use.mode;
  if (use.python)
    if (Status s = addPythonHooks(e); !s) missing.push_back(s.message());
  return missing;
}

Status addPythonHooks(Environment& e) {
  Result<std::string> file = installedFile("tracesmith_hooks/site/sitecustomize.py");
  if (!file) return Status::notFound("torch is not hooked: that needs " + file.status().message());
  const std::string folder = std::filesystem::path(*file).parent_path().string();
  if (folder.find(':') != std::string::npos)
    return Status::invalid("torch is not hooked: the path " + folder + " contains a colon");
  const std::string old = valueOf(e, "PYTHONPATH");
  const std::string path = old.empty() ? folder : folder + ":" + old;  // an empty part would be the working folder
  if (path.starts_with(folder + ":" + folder)) return {};              // `run` inside `run`
  e["PYTHONPATH"] = path;
  // The program may run in another folder.
  std::error_code missing;
  const std::filesystem::path record = std::filesystem::absolute(hardware::capabilityPath(hostName()), missing);
  if (std::filesystem::exists(record, missing)) e.try_emplace("TRACESMITH_CAPABILITY", record.string());
  return {};
}

}  // namespace tracesmith::capture
