// How long many events lasted, in a few bytes: counts by the logarithm of their length. Sketches of any number of
// steps and ranks add up exactly to that of all of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tracesmith::analysis {

class Sketch {
 public:
  static constexpr int kPerOctave = 8;  ///< buckets: a length is known to 9 %

  /// floor(8 log2(ns)); 0 for less than a nanosecond.
  static int bucketOf(int64_t ns);
  /// The middle of a bucket, ns.
  static double lengthOf(int bucket);

  void add(int64_t ns) { ++counts_[bucketOf(ns)]; }
  void add(const Sketch& other);
  uint64_t count() const;
  /// What this part of all is not longer than, ns, to 5 %; 0 if there is nothing.
  double quantile(double part) const;

  /// "141:12 142:3", as `event_summaries` keeps it; empty where one bucket has all.
  std::string text() const;
  /// What does not parse is left out.
  static Sketch parse(std::string_view text);
  const std::map<int, uint64_t>& counts() const { return counts_; }

 private:
  std::map<int, uint64_t> counts_;
};

}  // namespace tracesmith::analysis
