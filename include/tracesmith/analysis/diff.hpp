// What changed between two traces, on which ranks, and how sure that is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/common/export.hpp"

namespace tracesmith::analysis {

struct DiffOptions {
  size_t threads = 0;
  std::string comm_rules;
  int64_t rank = trace::kNull;  ///< whose events are compared by name; kNull: the first of each trace
  int64_t step = trace::kNull;  ///< in which step; kNull: the first of each trace
};

/// Time of a step that went into something, before and after.
struct DiffPart {
  std::string what;             ///< step, compute, exposed_comm, hidden_comm, data, idle
  int64_t rank = trace::kNull;  ///< kNull: all ranks
  double before_us = 0, after_us = 0;
  double change_pct = 0;  ///< of the step before
  double confidence = 0;
  bool significant = false;
};

/// A kernel or operator by name, per step and rank over the whole trace; per rank where steps are not compared.
struct DiffName {
  std::string name;
  bool device = false;
  double before_count = 0, after_count = 0;
  double before_us = 0, after_us = 0;
};

/// Names by how often they occur in one step of one rank: HTA's trace diff.
struct DiffSets {
  std::vector<std::string> added, deleted, increased, decreased, unchanged;
};

struct Diff {
  std::string verdict;
  double before_step_us = kUnknown, after_step_us = kUnknown;
  double before_startup_us = kUnknown, after_startup_us = kUnknown;  ///< before the first step, and in no other figure
  std::vector<DiffPart> parts;  ///< all ranks first, then ranks that changed, largest change first
  bool per_step = true;         ///< false: one of the traces has no steps, so that names are compared per rank only
  std::vector<DiffName> names;  ///< largest change of time first
  DiffSets cpu, gpu;
  int64_t rank_a = trace::kNull, rank_b = trace::kNull, step_a = trace::kNull, step_b = trace::kNull;
  std::vector<std::string> differs;  ///< in which the jobs differ: ranks, GPUs, software
  std::vector<std::string> unknowns;
};

TRACESMITH_API Result<Diff> diff(const trace::Reader& a, const trace::Reader& b, const DiffOptions& options = {});
TRACESMITH_API std::string toJson(const Diff& diff, const std::string& a, const std::string& b);

}  // namespace tracesmith::analysis
