// What `tracesmith sample` prints: the functions that took the time, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "process/sampling.hpp"
#include "trace/export/flame.hpp"

namespace tracesmith::cli {

/// What was sampled, now or (then `sampling` is null) by whoever wrote the trace.
struct SampleReport {
  const trace::StackCounts& counts;
  const trace::FlameTree& tree;
  const process::Sampling* sampling = nullptr;
  std::vector<std::string> outputs;
  uint64_t refused = 0;  ///< processes of Python that may not be read
};

/// "2 processes for 10.0 s at 100 Hz, 4,000 samples of 4 threads".
std::string sampleText(const trace::StackCounts& counts);
void printSample(const SampleReport& report, bool functions);
std::string sampleJson(const SampleReport& report);

}  // namespace tracesmith::cli
