// The analysis as a page for a person.
#pragma once

#include <string>

#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::cli {

struct AnalyzePrint {
  bool ranks = false, steps = false, comm = false;
};
/// Only what ranks send each other.
std::string communicationText(const analysis::Analysis& analysis);
std::string communicationJson(const analysis::Analysis& analysis);
std::string analyzeText(const analysis::Analysis& analysis, const AnalyzePrint& print);

}  // namespace tracesmith::cli
