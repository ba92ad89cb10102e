// What two traces were recorded on.
#pragma once

#include <string>
#include <vector>

#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

/// One text for each thing both traces tell about and in which they differ: GPUs, operating system, driver, versions.
Result<std::vector<std::string>> differingSettings(const trace::Reader& a, const trace::Reader& b);

}  // namespace tracesmith::analysis
