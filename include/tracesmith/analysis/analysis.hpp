// Who made everybody wait, and why: the analysis of one trace. docs/analysis.md says how each figure is defined.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

struct Analysis : AnalysisResult {
  std::optional<Excerpt> excerpt;  ///< of the collective that cost most
};

TRACESMITH_API Result<Analysis> analyze(const trace::Reader& reader, const AnalyzeOptions& options = {});

/// docs/analysis.md describes it.
TRACESMITH_API std::string toJson(const Analysis& analysis, const std::string& file);

}  // namespace tracesmith::analysis
