// From when to when a job ran, and in which steps, for those who need no verdict.
#pragma once

#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::analysis {

/// The beginning of analyze(), so that all commands mean the same by a step, the job's time and start-up. Fills
/// duration_us, job_us, startup_us, step_us, steps_by and steps. Reads all events once.
Result<Analysis> findJobTime(const trace::Reader& reader);

}  // namespace tracesmith::analysis
