// One clock for all ranks of a job: from what the trace says, or from collectives where that is missing or cannot be.
#include <set>

#include "analysis/clocks/clock_refine.hpp"
#include "analysis/verdict/job_data.hpp"
#include "base/count.hpp"

namespace tracesmith::analysis {

using namespace trace;

void settleClocks(JobData& job, Analysis& out) {
  if (const uint64_t impossible = findImpossible(job.table))
    out.unknowns.push_back(
        counted(impossible, "collective") + (impossible == 1 ? " has" : " have") +
        " ranks that left before another one of the same node arrived: " + (impossible == 1 ? "it is" : "they are") +
        " not one operation and " + (impossible == 1 ? "was" : "were") + " left out");
  std::vector<std::string> missing;
  for (const std::string& d : job.table.domains)
    if (!job.clocks.contains(d)) missing.push_back(d);
  const std::vector<std::string> lost = estimateClocks(job.table, job.clocks);
  job.clocks_known = lost.empty();
  if (job.table.domains.size() > 1 && !missing.empty())
    out.unknowns.push_back(
        "the clocks of " + std::to_string(missing.size()) + " of " + std::to_string(job.table.domains.size()) +
        " nodes or ranks are not in the trace; " +
        (lost.empty() ? "they were estimated from collectives that end together"
                      : "for " + std::to_string(lost.size()) +
                            " of them there are no collectives to estimate from, so who was late there is unknown"));
  const Contradictions found = contradictions(job.table, job.clocks);
  if (job.table.domains.size() > 1 && found.wrong * 20 > found.checked) {
    // What the trace says about its clocks cannot be: ranks would leave collectives before the last came.
    job.clocks.clear();
    job.clocks_known = estimateClocks(job.table, job.clocks).empty();
    out.unknowns.push_back("the clocks in the trace contradict the collectives (" + std::to_string(found.wrong) +
                           " of " + std::to_string(found.checked) +
                           " checked); they were estimated from collectives that end together");
  }
  const Refinement refined = refineClocks(job.table, job.clocks);
  for (const std::string& fault : refined.faults) out.unknowns.push_back("clock fault: " + fault);
  settle(job.table, job.clocks);
  if (job.host_only) trimHostEnds(job.table);
  for (const std::string& d : job.table.domains) {
    if (const trace::ClockTable& clock = clockOf(job.clocks, d); !clock.empty()) {
      const trace::ClockModel& m = clock.models().back();
      out.clocks.push_back({d, m.offset_ns, m.drift_ppm, m.valid() ? m.bound_ns : kNull, m.method});
    } else {
      out.clocks.push_back({d, 0, 0, kNull, job.table.domains.size() == 1 ? "reference" : "unknown"});
    }
  }
  std::set<std::string> nodes;
  for (const auto& [process, node] : job.table.node_of) nodes.insert(node);
  out.nodes = static_cast<int>(nodes.size());
}

}  // namespace tracesmith::analysis
