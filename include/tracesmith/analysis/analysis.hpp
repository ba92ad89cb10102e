// Who made everybody wait, and why: the analysis of one trace. docs/analysis.md says how each figure is defined.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tracesmith/analysis/hta.hpp"
#include "tracesmith/analysis/results.hpp"
#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

struct AnalyzeOptions {
  size_t threads = 0;       ///< 0: all cores
  std::string comm_rules;   ///< file of rules that say which kernels are communication; empty: the built-in ones
  bool hta = true;          ///< HTA's figures too
  bool collectives = true;  ///< fill Analysis::collectives
  bool excerpt = false;     ///< fill Analysis::excerpt
  size_t kernels = 20;      ///< most in Analysis::kernels
  bool marks = true;        ///< false: find the steps as if none were marked
  std::function<void(uint64_t done, uint64_t total)> progress;  ///< events read so far; from any of the threads
};

/// What ranks did around one collective. Times are µs after the excerpt's start.
struct Excerpt {
  struct Bar {
    double from_us, to_us;
    std::string name;
    enum Kind { compute, communication, copy, this_one } kind;
  };
  struct Lane {
    int64_t rank;
    std::string node;
    double arrival_us;
    std::vector<Bar> bars;
  };
  std::string group, op;
  int64_t index = 0, step = trace::kNull, culprit_rank = trace::kNull;
  double length_us = 0, last_arrival_us = 0, wait_us_total = 0;
  int ranks = 0;  ///< of the collective; not all need have a lane
  std::vector<Lane> lanes;
};

struct Analysis {
  Verdict verdict;
  bool simulated = false;             ///< no measurement
  std::vector<std::string> unknowns;  ///< what the answer cannot know, and why
  std::vector<std::string> notes;     ///< how it knows what the trace does not say
  uint64_t events = 0;
  int ranks = 0, nodes = 0;
  std::optional<int> world_size;  ///< ranks of the job, of which the trace may have some only; absent: not known
  double duration_us = 0;  ///< recorded: from the first to the last that ranks did, as `info` and the page say it
  /// From the start of the first step to the end of the last; all that was recorded where there are no steps. Shares
  /// are of this time.
  double job_us = 0;
  double startup_us = kUnknown;  ///< recorded before the first step, and not counted
  double step_us = kUnknown;     ///< median of the steps
  Hta hta;
  std::string steps_by =
      "none";  ///< how steps are known: marks, optimizer, operations, kernels; windows or none: they are not
  std::vector<StepResult> steps;
  std::vector<Breakdown> breakdown;
  std::vector<KernelResult> kernels;  ///< those that take most time, largest first
  std::vector<CollectiveResult> collectives;
  std::vector<Blame> blame;       ///< significant ones first, then largest cost first
  std::vector<LinkResult> links;  ///< largest slowdown first
  std::vector<MatrixCell> matrix;
  std::string matrix_note;  ///< how much of the matrix is a guess; empty: none
  std::string pattern;
  std::optional<CriticalPath> critical_path;
  std::optional<Excerpt> excerpt;  ///< of the collective that cost most
  std::vector<ClockResult> clocks;
  std::vector<LossResult> losses;
  uint64_t incomplete = 0, inconsistent = 0, unmatched = 0;  ///< collectives not all ranks of which are there, …
};

TRACESMITH_API Result<Analysis> analyze(const trace::Reader& reader, const AnalyzeOptions& options = {});

/// docs/analysis.md describes it.
TRACESMITH_API std::string toJson(const Analysis& analysis, const std::string& file);

}  // namespace tracesmith::analysis
