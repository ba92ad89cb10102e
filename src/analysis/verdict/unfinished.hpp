// Operations that were in flight when the recording ended, and somebody never came to: the trace of a job that hangs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/verdict/job_data.hpp"
#include "trace/name_numbers.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

struct Unfinished {
  std::string comm, op;
  int64_t seq = 0;
  int64_t peer = trace::kNull;            ///< of a send or receive that did not come: the rank that waits for it
  std::vector<int64_t> entered, missing;  ///< ranks
  bool all_entered = false;               ///< nobody is missing
  int64_t waited_ns = 0;                  ///< the last to come, until the last row of its node
};

/// The first operation of the trace that ranks waited in to its end while others had not launched it; else the first
/// that all had launched and none left, where nothing has ended since (then nobody is missing). Nothing where the wait
/// was no longer than waits of this job are. After match() and settle().
std::optional<Unfinished> findUnfinished(const trace::Reader& reader, const trace::NameNumbers& names,
                                         const JobData& job, std::optional<int> world_size);
/// The verdict on such a trace; what was found else is not forgotten.
void sayHang(const Unfinished& op, const JobData& job, Verdict& verdict);
/// Where these ranks were last, as far as the trace has stacks of their first threads: "rank 1: load (data.py:12),
/// called from step (train.py:40)".
std::vector<std::string> lastPlaces(const trace::Reader& reader, const std::vector<int64_t>& ranks);

}  // namespace tracesmith::analysis
