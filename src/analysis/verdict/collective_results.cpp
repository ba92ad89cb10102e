// The collectives of a job as the result lists them.
#include "analysis/verdict/job_data.hpp"

namespace tracesmith::analysis {

using trace::kNull;

namespace {

double us(int64_t ns) { return static_cast<double>(ns) / 1000; }

}  // namespace

uint64_t listCollectives(const JobData& job, const std::vector<int32_t>& roots, bool each, Analysis& out) {
  uint64_t off_clock = 0;
  const PartTable& t = job.table;
  for (size_t i = 0; i < t.instances.size(); ++i) {
    const Instance& in = t.instances[i];
    out.incomplete += !in.complete;
    out.inconsistent += !in.consistent;
    off_clock += in.possible && !in.consistent;
    if (!each) continue;
    CollectiveResult c;
    c.index = in.index;
    c.group = t.comms[in.comm].name;
    c.op = opName(in.op);
    c.bytes = in.bytes;
    c.step = in.step < 0 ? kNull : in.step;
    c.start_ns = in.first_start;
    c.ranks = static_cast<int>(in.count);
    c.group_size = in.group_size;
    if (roots[i] != kNobody) {
      c.culprit_rank = job.rankOf(t.parts[static_cast<size_t>(in.last_part)].process);
      c.root_rank = job.rankOf(roots[i]);
      c.wait_us_total = us(in.wait_ns);
    } else {
      c.wait_us_total = kUnknown;
    }
    c.skew_start_us = us(in.last_start - in.first_start);
    c.skew_end_us = us(in.last_end - in.first_end);
    c.transfer_us = in.complete && in.consistent ? us(in.transferNs()) : kUnknown;
    if (in.complete && in.consistent)
      if (const auto speed = model::bandwidthOf(in.op, in.bytes, in.group_size, in.transferNs())) {
        c.algbw_gbps = speed->algorithm_gbps;
        c.busbw_gbps = speed->bus_gbps;
      }
    out.collectives.push_back(std::move(c));
  }
  out.unmatched = t.unmatched;
  return off_clock;
}

}  // namespace tracesmith::analysis
