// Modules that take longer than others which should take as long.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tracesmith/analysis/results.hpp"

namespace tracesmith::analysis {

using ModuleTimes = std::map<int64_t, double>;  ///< of one module: ns of a step, by rank

/// Compares each module with its siblings (the same pattern and class) on the same rank, and where it has less than
/// two, with itself on other ranks. Sets `slowdown` and `slow_ranks`, and adds a sentence for each of the worst.
/// `times`: by module. `host`: they are times of the host.
void findSlowSiblings(const std::vector<ModuleTimes>& times, std::vector<ModuleResult>& modules, bool host,
                      std::vector<std::string>& notes);

}  // namespace tracesmith::analysis
