// The probe in a process that was started without it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "capture/ring/reader.hpp"
#include "process/inject.hpp"

namespace tracesmith::process {

struct AttachOptions {
  std::string probe;  ///< its file
  std::string mode = "default";
  int64_t patience_ns = 5'000'000'000;
  bool despite_seccomp = false;
};

struct Attached {
  bool resumed = false;  ///< the probe was there already, and paused
  Injected how;          ///< unless resumed
  std::string ring;      ///< its file, as this process sees it
  bool python = false;
  std::vector<std::string> notes;  ///< what is not recorded, and why
};

Result<Attached> attach(pid_t pid, const AttachOptions& options);
/// Pauses what the probe records; it stays in the process. Returns whether it was recording.
Result<bool> detach(pid_t pid);

/// The live ring of a process; null: it has none, or it cannot be read.
std::unique_ptr<ring::RingReader> ringOf(pid_t pid);
/// Where a process leaves what only its user and root may see, as the process names it; `seen`: as this one does.
Result<std::string> privateFolder(pid_t pid, std::string& seen);

}  // namespace tracesmith::process
