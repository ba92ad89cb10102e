// The analysis as a page for a person.
#pragma once

#include <string>

#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::cli {

struct AnalyzePrint {
  bool ranks = false, steps = false, comm = false;
};
std::string analyzeText(const analysis::Analysis& analysis, const AnalyzePrint& print);

}  // namespace tracesmith::cli
