// Who a process is: its user, program, job and rank.
#pragma once

#include <cstdint>
#include <string>

#include "hardware/inventory.hpp"

namespace tracesmith::hardware {

struct ProcessInfo {
  int64_t pid = 0;
  std::string user, command;
  std::string job, job_step, pod, pod_namespace;  ///< as its launcher says in its environment; empty: it does not
  int64_t rank = kUnknown;
};

/// What may be seen of a process; only its pid when it has ended.
ProcessInfo processInfo(const std::string& root, int64_t pid);

}  // namespace tracesmith::hardware
