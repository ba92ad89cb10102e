// The pictures of a report, as SVG: colours come from the page's style sheet, so that they suit light and dark.
#pragma once

#include <string>
#include <string_view>

#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::cli {

/// Text safe inside HTML and SVG.
std::string escaped(std::string_view text);

std::string timelinePicture(const analysis::Excerpt& excerpt);
/// How long each rank's kernels took in each step against its peers.
std::string heatMapPicture(const analysis::Analysis& analysis);
std::string matrixPicture(const analysis::Analysis& analysis);
std::string breakdownPicture(const analysis::Analysis& analysis);

}  // namespace tracesmith::cli
