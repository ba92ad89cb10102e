// What Slurm says about a job, asked with its own programs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::cli {

struct SlurmJob {
  std::string id;
  std::string state;               ///< RUNNING, PENDING, …; empty: Slurm does not know it (any more)
  std::vector<std::string> nodes;  ///< as Slurm calls them

  bool running() const { return state == "RUNNING" || state == "COMPLETING" || state == "SUSPENDED"; }
  /// Whether a node of the cluster is one of the job's: by its name, with or without the domain.
  bool has(std::string_view node) const;
};

/// `id`: 4711, or 4711_3 for a task of an array. Not ok: Slurm cannot be asked.
Result<SlurmJob> slurmJob(const std::string& id);

}  // namespace tracesmith::cli
