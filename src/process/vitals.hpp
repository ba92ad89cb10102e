// What /proc says about a process at a glance: whether it runs, and in which container or job it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tracesmith::process {

struct Vitals {
  char state = 0;          ///< 'R', 'S', 'D', 'T', …
  uint64_t cpu_ticks = 0;  ///< of all its threads, since its start; clockTicks() a second
  int64_t threads = 0;
};
/// `root`: before /proc. Nothing if it has ended.
std::optional<Vitals> vitals(const std::string& root, int64_t pid);
/// Of Vitals::cpu_ticks, a second.
double clockTicks();

/// Who runs a process, as its control group says; empty: nobody.
struct Placement {
  std::string container;  ///< first twelve digits of its id
  std::string pod;        ///< id of a Kubernetes pod
  std::string slurm_job;
  bool operator==(const Placement&) const = default;
};
/// From the text of /proc/<pid>/cgroup.
Placement placementOf(std::string_view cgroup);

/// Process ids below `root`/proc, ascending.
std::vector<int64_t> processIds(const std::string& root);
/// By the name of its program, or because it has libpython in it.
bool looksLikePython(const std::string& root, int64_t pid);

}  // namespace tracesmith::process
