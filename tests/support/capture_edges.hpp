// Where a capture really begins and ends on a node: what a numbered_job wrote, with the true time of each record,
// against what is in the trace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace tracesmith::test {

struct CaptureEdges {
  int64_t start_error_ns = 0, end_error_ns = 0;  ///< between the edge asked for and where the trace was cut
  int64_t holes = 0;                             ///< records missing between the first and the last
  bool covered = false;                          ///< the job wrote before the start and after the end
};

inline std::vector<int64_t> readTruth(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<int64_t> truth;
  for (int64_t t; in.read(reinterpret_cast<char*>(&t), sizeof t);) truth.push_back(t);
  return truth;
}

/// How far `at` lies outside of [before, after]: an edge between two records may be anywhere between them.
inline int64_t outside(int64_t at, int64_t before, int64_t after) {
  return at < before ? before - at : at > after ? at - after : 0;
}

/// `found`: numbers in the trace. Times on the machine's raw clock.
inline CaptureEdges captureEdges(const std::vector<int64_t>& truth, const std::set<int64_t>& found, int64_t start_ns,
                                 int64_t end_ns) {
  CaptureEdges e;
  if (found.empty() || truth.empty()) return e;
  const auto first = static_cast<size_t>(*found.begin()), last = static_cast<size_t>(*found.rbegin());
  e.covered = first > 0 && last + 1 < truth.size();
  if (!e.covered) return e;
  e.start_error_ns = outside(start_ns, truth[first - 1], truth[first]);
  e.end_error_ns = outside(end_ns, truth[last], truth[last + 1]);
  e.holes = static_cast<int64_t>(last - first + 1 - found.size());
  return e;
}

}  // namespace tracesmith::test
