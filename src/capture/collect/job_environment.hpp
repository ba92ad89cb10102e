// What the environment of a job must have so that the probe, and the hooks of Python programs, load in its processes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::capture {

using Environment = std::map<std::string, std::string>;

/// The variables of this process.
Environment ownEnvironment();

struct ProbeUse {
  std::string folder;  ///< for the rings
  std::string mode;    ///< light, default, full, watch
  bool python = true;  ///< also the hooks
};
/// Points CUDA, NCCL and NVTX at the probe. What somebody else set there stays. Returns what will not be recorded.
std::vector<std::string> addProbe(const ProbeUse& use, Environment& environment);

/// Puts the folder with TraceSmith's sitecustomize in front of PYTHONPATH. An error says why torch will not be hooked;
/// the rest of a recording does not need it.
Status addPythonHooks(Environment& environment);

}  // namespace tracesmith::capture
