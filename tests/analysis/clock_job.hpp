// A job on nodes whose clocks are known badly, with the truth beside it: for the test and for clock_bench.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>

#include "analysis/clock_refine.hpp"

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
  ClockModels given, truth;
};

/// Raw clock of a node: off by seconds, drifting by tens of ppm. The trace's models are wrong as far as their bound
/// says.
inline MadeClockJob makeClockJob(const ClockJob& job) {
  MadeClockJob m;
  std::mt19937_64 random(7);
  auto uniform = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  for (int n = 0; n < job.nodes; ++n) {
    m.table.domains.push_back("node" + std::to_string(n));
    const ClockSegment truth{1'000'000'000'000 * (n + 1), std::llround(uniform(-5e9, 5e9)), uniform(-50, 50), 0,
                             "truth"};
    m.truth.set(m.table.domains.back(), {truth});
    // A new model every 5 s, each wrong in its own way.
    std::vector<ClockSegment> given;
    for (double s = 0; s < job.seconds; s += 5) {
      ClockSegment g = truth;
      g.from += std::llround(s * 1e9);
      g.offset_ns += std::llround(truth.drift_ppm * 1e-6 * s * 1e9 +
                                  uniform(-job.error, job.error) * static_cast<double>(job.bound_ns));
      if (n == 1) g.offset_ns += job.outside_ns;
      g.drift_ppm += uniform(-1, 1);
      g.bound_ns = job.bound_ns;
      g.method = "exchange";
      given.push_back(g);
    }
    m.given.set(m.table.domains.back(), given);
  }
  const int ranks = job.nodes * job.ranks_per_node;
  for (int r = 0; r < ranks; ++r) m.table.domain_of[r] = static_cast<uint32_t>(r / job.ranks_per_node);
  // All clocks show the same reference range: begin where the latest of them begins.
  int64_t begin = INT64_MIN;
  for (const std::string& d : m.table.domains) {
    ClockSegment s = m.truth.find(d)->front();
    begin = std::max(begin, s.from + s.offset_ns);
  }
  for (int n = 0; n < job.nodes; ++n) {  // every model is stated from that moment on
    const std::string& d = m.table.domains[static_cast<size_t>(n)];
    const int64_t move = begin - (m.truth.find(d)->front().from + m.truth.find(d)->front().offset_ns);
    for (ClockModels* models : {&m.truth, &m.given}) {
      std::vector<ClockSegment> list = *models->find(d);
      for (ClockSegment& s : list) s.from += move;
      models->set(d, list);
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
      const auto* clock = m.truth.find(m.table.domains[static_cast<size_t>(r / job.ranks_per_node)]);
      Part p;
      p.process = r;
      p.op = in.op;
      p.ts = ClockModels::toRaw(clock, starts[static_cast<size_t>(r)]);
      p.end = ClockModels::toRaw(clock, last + job.transfer_ns + std::llround(uniform(0, 4000)));
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
inline ClockErrors clockErrors(const MadeClockJob& m, const ClockModels& models, const std::string& reference) {
  ClockErrors e;
  for (size_t i = 0; i < m.table.parts.size(); i += 7) {
    const Part& p = m.table.parts[i];
    const std::string& d = m.table.domains[m.table.domain_of.at(p.process)];
    const int64_t truth = ClockModels::toReference(m.truth.find(d), p.end);
    const int64_t anchor_raw = ClockModels::toRaw(m.truth.find(reference), truth);
    const int64_t off = (ClockModels::toReference(models.find(d), p.end) - truth) -
                        (ClockModels::toReference(models.find(reference), anchor_raw) - truth);
    e.worst = std::max(e.worst, std::abs(static_cast<double>(off)));
    for (const ClockSegment& s : *models.find(d)) e.bound = std::max(e.bound, static_cast<double>(s.bound_ns));
  }
  e.broken = e.worst - e.bound;
  return e;
}

}  // namespace tracesmith::test
