// A job on nodes whose clocks are known badly, with the truth beside it: for the test and for clock_bench.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>

#include "analysis/clocks/clock_refine.hpp"

namespace tracesmith::test {

using namespace analysis;

struct ClockJob {
  int nodes = 4, ranks_per_node = 2, collectives = 400;
  double seconds = 30;
  int64_t bound_ns = 200'000;  ///< of the clocks in the trace
  double error = 0.9;          ///< part of the bound they are really off
  int64_t transfer_ns = 30'000;
  int slow_node = -1;      ///< comes last, but for one collective in 20
  int64_t outside_ns = 0;  ///< the clock of node 1 is farther off than its bound says, by this
};

struct MadeClockJob {
  PartTable table;
  trace::Clocks given, truth;
};

/// Raw clock of a node: off by seconds, drifting by tens of ppm. The trace's models are wrong as far as their bound
/// says.
inline MadeClockJob makeClockJob(const ClockJob& job) {
  MadeClockJob m;
  std::mt19937_64 random(7);
  auto uniform = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  for (int n = 0; n < job.nodes; ++n) {
    m.table.domains.push_back("node" + std::to_string(n));
    const trace::ClockModel truth{1'000'000'000'000 * (n + 1), std::llround(uniform(-5e9, 5e9)), uniform(-50, 50), 0,
                                  "truth"};
    m.truth[m.table.domains.back()].add(truth);
    // A new model every 5 s, each wrong in its own way.
    for (double s = 0; s < job.seconds; s += 5) {
      trace::ClockModel g = truth;
      g.at_ns += std::llround(s * 1e9);
      g.offset_ns += std::llround(truth.drift_ppm * 1e-6 * s * 1e9 +
                                  uniform(-job.error, job.error) * static_cast<double>(job.bound_ns));
      if (n == 1) g.offset_ns += job.outside_ns;
      g.drift_ppm += uniform(-1, 1);
      g.bound_ns = job.bound_ns;
      g.method = "exchange";
      m.given[m.table.domains.back()].add(g);
    }
  }
  const int ranks = job.nodes * job.ranks_per_node;
  for (int r = 0; r < ranks; ++r) m.table.domain_of[r] = static_cast<uint32_t>(r / job.ranks_per_node);
  // All clocks show the same reference range: begin where the latest of them begins.
  int64_t begin = INT64_MIN;
  for (const std::string& d : m.table.domains) {
    const trace::ClockModel& truth = m.truth[d].models().front();
    begin = std::max(begin, truth.at_ns + truth.offset_ns);
  }
  for (int n = 0; n < job.nodes; ++n) {  // every model is stated from that moment on
    const std::string& d = m.table.domains[static_cast<size_t>(n)];
    const trace::ClockModel& truth = m.truth[d].models().front();
    const int64_t move = begin - (truth.at_ns + truth.offset_ns);
    for (trace::ClockTable* clock : {&m.truth[d], &m.given[d]}) {
      trace::ClockTable moved;
      for (trace::ClockModel model : clock->models()) {
        model.at_ns += move;
        moved.add(model);
      }
      *clock = moved;
    }
  }
  for (int c = 0; c < job.collectives; ++c) {
    Instance in;
    in.first = static_cast<uint32_t>(m.table.order.size());
    in.count = static_cast<uint32_t>(ranks);
    in.op = OpKind::all_reduce;
    const int64_t at = begin + std::llround(job.seconds * 1e9 * c / job.collectives);
    std::vector<int64_t> starts;
    for (int r = 0; r < ranks; ++r)
      starts.push_back(at + std::llround(uniform(0, 300'000)) +
                       (r / job.ranks_per_node == job.slow_node && c % 20 ? 2'000'000 : 0));
    const int64_t last = *std::max_element(starts.begin(), starts.end());
    for (int r = 0; r < ranks; ++r) {
      const trace::ClockTable& clock = m.truth[m.table.domains[static_cast<size_t>(r / job.ranks_per_node)]];
      Part p;
      p.process = r;
      p.op = in.op;
      p.ts = clock.toRaw(starts[static_cast<size_t>(r)]);
      p.end = clock.toRaw(last + job.transfer_ns + std::llround(uniform(0, 4000)));
      m.table.order.push_back(static_cast<uint32_t>(m.table.parts.size()));
      m.table.parts.push_back(p);
    }
    m.table.instances.push_back(in);
  }
  return m;
}

/// Largest true error between any node and the one of the reference, and the largest bound, over the job.
struct ClockErrors {
  double worst = 0, bound = 0, broken = 0;
};
inline ClockErrors clockErrors(const MadeClockJob& m, const trace::Clocks& clocks, const std::string& reference) {
  ClockErrors e;
  for (size_t i = 0; i < m.table.parts.size(); i += 7) {
    const Part& p = m.table.parts[i];
    const std::string& d = m.table.domains[m.table.domain_of.at(p.process)];
    const int64_t truth = clockOf(m.truth, d).toReference(p.end);
    const int64_t anchor_raw = clockOf(m.truth, reference).toRaw(truth);
    const int64_t off =
        (clockOf(clocks, d).toReference(p.end) - truth) - (clockOf(clocks, reference).toReference(anchor_raw) - truth);
    e.worst = std::max(e.worst, std::abs(static_cast<double>(off)));
    e.bound = std::max(e.bound, static_cast<double>(clockOf(clocks, d).worstBound()));
  }
  e.broken = e.worst - e.bound;
  return e;
}

}  // namespace tracesmith::test
