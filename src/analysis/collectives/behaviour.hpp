// Operations that no row of `collectives` tells of, known by what their kernels do: they begin apart on the ranks of a
// group and end together, again and again. Whatever their names are, no rank leaves them before the last has come.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/collectives/collective_parts.hpp"

namespace tracesmith::analysis {

/// Kernels of one name on one stream of a rank: those that came first in its steps.
struct KernelSample {
  static constexpr size_t kMost = 16;
  struct One {
    int64_t at;  ///< its step, and which one it is in there: the same on all ranks
    int64_t ts, end;
  };
  uint32_t name;
  int64_t stream;
  std::vector<One> first;
};

/// Where in the steps of a rank something is: the `index`-th in its step.
inline int64_t sampleAt(int64_t step, int64_t index) { return step * (1 << 20) + index; }

/// Takes the kernels of one rank, by start.
class KernelSampler {
 public:
  explicit KernelSampler(size_t names) : seen_(names), index_(names) {}
  void add(uint32_t name, int64_t stream, int64_t step, int64_t ts, int64_t end) {
    if (seen_[name] == kEnough) return;
    ++seen_[name];
    keep(name, stream, step, ts, end);
  }
  /// Those that take most time.
  std::vector<KernelSample> take();

 private:
  static constexpr uint8_t kEnough = 4 * KernelSample::kMost;  // on all its streams
  void keep(uint32_t name, int64_t stream, int64_t step, int64_t ts, int64_t end);
  struct Own {
    KernelSample sample;
    int64_t step = INT64_MIN, next = 0;  // in this step
  };
  std::vector<uint8_t> seen_;                 // by name
  std::vector<std::vector<uint32_t>> index_;  // by name: in samples_
  std::vector<Own> samples_;
};

/// What was found: which kernels synchronise which ranks.
class Synchronising {
 public:
  /// `samples`: by process.
  static Synchronising find(const std::map<int64_t, std::vector<KernelSample>>& samples, const PartTable& table);
  bool empty() const { return groups_.empty(); }
  /// Names of their kernels, ascending.
  std::vector<uint32_t> names() const;
  /// Makes operations of the parts with these kernels that have none yet. Returns how many parts that are.
  size_t apply(PartTable& table) const;

 private:
  struct Group {
    uint32_t number = 0;
    int32_t size = 0;
  };
  /// By kernel, which of its streams, and process.
  std::map<std::pair<uint32_t, size_t>, std::map<int64_t, Group>> groups_;
};

}  // namespace tracesmith::analysis
