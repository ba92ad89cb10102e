// The pictures of a report, as SVG: colours come from the page's style sheet, so that they suit light and dark.
#pragma once

#include <string>

#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::cli {

std::string timelinePicture(const analysis::Excerpt& excerpt);
/// How long each rank's kernels took in each step against its peers.
std::string heatMapPicture(const analysis::Analysis& analysis);
std::string matrixPicture(const analysis::Analysis& analysis);
std::string breakdownPicture(const analysis::Analysis& analysis);

}  // namespace tracesmith::cli
