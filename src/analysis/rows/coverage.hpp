// When the GPU's work of a process was not recorded. Nobody may take such a stretch for idleness.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/rows/intervals.hpp"
#include "trace/name_numbers.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

class Coverage {
 public:
  static Result<Coverage> load(const trace::Reader& reader, const trace::NameNumbers& names);
  bool whole() const { return off_.empty(); }
  /// By process, in order, raw clock; the first one may begin at INT64_MIN, the last one end at INT64_MAX.
  const std::map<int64_t, std::vector<Interval>>& gaps() const { return off_; }
  /// How much of [from, to) was not recorded, raw clock.
  int64_t missing(int64_t process, int64_t from, int64_t to) const;

 private:
  std::map<int64_t, std::vector<Interval>> off_;  // by process, in order
};

}  // namespace tracesmith::analysis
