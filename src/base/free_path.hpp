// A name for a file that nobody asked to be overwritten.
#pragma once

#include <string>

namespace tracesmith {

/// STEM + ENDING, or the first of "STEM-2" + ENDING, "STEM-3" + ENDING, … that is not taken.
std::string freePath(const std::string& stem, const std::string& ending);

}  // namespace tracesmith
