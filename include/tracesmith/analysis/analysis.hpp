// Who made everybody wait, and why: the analysis of one trace. docs/analysis.md says how each figure is defined.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tracesmith/analysis/hta.hpp"
#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/model/cause.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

struct AnalyzeOptions {
  size_t threads = 0;       ///< 0: all cores
  std::string comm_rules;   ///< file of rules that say which kernels are communication; empty: the built-in ones
  bool hta = true;          ///< HTA's figures too
  bool collectives = true;  ///< fill Analysis::collectives
  bool excerpt = false;     ///< fill Analysis::excerpt
  std::function<void(uint64_t done, uint64_t total)> progress;  ///< events read so far; from any of the threads
};

/// What was not measured is kNull or NaN. Times are of the reference clock.
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// One step over all ranks.
struct StepResult {
  int64_t step = trace::kNull;
  int64_t start_ns = 0;
  double duration_us = 0;  ///< median of the ranks
  double slowest_us = 0;
  int64_t slowest_rank = trace::kNull;
  int ranks = 0;
};

/// One step of one rank: where its time went. Phases are unknown where nothing named them.
struct Breakdown {
  int64_t rank = trace::kNull, step = trace::kNull;
  double forward_us = kUnknown, backward_us = kUnknown, optimizer_us = kUnknown;
  double compute_us = 0, other_us = 0, data_us = 0;
  double exposed_comm_us = 0, hidden_comm_us = 0, idle_us = 0;
  double kernel_ratio = kUnknown;  ///< its kernels' time against what they take as a rule in this trace
};

struct CollectiveResult {
  int64_t index = 0;
  std::string group, op;
  int64_t bytes = trace::kNull, step = trace::kNull;
  int64_t start_ns = 0;
  int ranks = 0, group_size = 0;
  int64_t culprit_rank = trace::kNull;  ///< last to arrive; kNull: cannot be said
  int64_t root_rank = trace::kNull;     ///< whom the culprit itself had waited for, else the culprit
  double wait_us_total = 0, skew_start_us = 0, skew_end_us = 0, transfer_us = 0;
  double algbw_gbps = kUnknown, busbw_gbps = kUnknown;
};

struct Blame {
  int64_t rank = trace::kNull;
  std::string node;
  double cost_us = 0;  ///< what others waited for it, rank-µs
  double lost_us = 0;  ///< of that, with no computation under the wait
  uint64_t collectives = 0;
  Cause cause = Cause::unknown;
  std::string evidence;
  double confidence = 0;  ///< 0 … 1
  bool significant = false;
  double slowdown = kUnknown;         ///< 1.3: its work takes 1.3 times as long as its peers'
  int64_t since_step = trace::kNull;  ///< kNull: always
  double saved_pct = kUnknown;        ///< of the job's time, if it were as fast as the others
};

struct LinkResult {
  std::string group;  ///< communicator, or "a→b" where the proxy's transfers say it
  std::vector<int64_t> ranks;
  std::vector<std::string> nodes;
  uint64_t collectives = 0;
  double slowdown = kUnknown;  ///< transfer against that of its peers, or its own past
  double busbw_gbps = kUnknown;
  double cost_us = 0;
  double confidence = 0;
  bool significant = false;
  int64_t since_step = trace::kNull;
  double saved_pct = kUnknown;
  std::string compared_with, evidence;
};

/// The job as it was measured, changed as the replay changes when it is run with the difference.
struct WhatIf {
  std::string what;
  double job_us = 0, saved_us = 0, saved_pct = 0, step_us = kUnknown;
};

struct CriticalPath {
  double total_us = 0, work_us = 0, transfer_us = 0, other_us = 0;
  struct Share {
    std::string of;
    int64_t rank = trace::kNull;
    double us = 0;
  };
  std::vector<Share> ranks, groups;  ///< largest first
  double replay_error_pct = 0;       ///< how far the replay of the job as it was is from what was measured
  std::vector<WhatIf> what_if;       ///< empty where the replay is more than 5 % off
};

struct ClockResult {
  std::string node;
  int64_t offset_ns = 0, bound_ns = trace::kNull;
  double drift_ppm = 0;
  std::string method;
};

struct LossResult {
  std::string cause, detail;
  int64_t rank = trace::kNull;
  uint64_t count = 0;
};

enum class VerdictKind { none, rank, link, unknown };

struct Verdict {
  VerdictKind kind = VerdictKind::unknown;
  std::string text;
  int64_t rank = trace::kNull;
  std::string node, group;
  std::optional<Cause> cause;  ///< nothing: nobody is blamed
  double cost_pct = kUnknown, confidence = 0;
  std::string next;               ///< what to do; empty: nothing
  std::vector<std::string> also;  ///< what else stands out, largest cost first
};

struct MatrixCell {
  int64_t from, to;
  uint64_t bytes, count;
  double latency_us;
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
  uint64_t events = 0;
  int ranks = 0, nodes = 0, world_size = 0;  ///< world_size 0: not known
  double duration_us = 0;  ///< from the first to the last that ranks did, as `info` and the page say it
  Hta hta;
  std::vector<StepResult> steps;
  std::vector<Breakdown> breakdown;
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
