// Where a sequence repeats itself: the steps of a job that marks none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tracesmith::analysis {

struct Repetition {
  std::vector<size_t> starts;  ///< where each repetition begins, ascending; the last may be cut
  size_t length = 0;           ///< how many elements one has as a rule
  uint64_t first = 0;          ///< the elements it begins with, as one number
};

/// The stretch that the end of a sequence repeats at least three times, once what varies from one repetition to the
/// next is left aside. Of a stretch that itself consists of repetitions (the layers of a model in a step) the whole.
/// It begins with `first` of another sequence where it has that, else where the sequence pauses longest as a rule.
/// `symbols`: what came, by number; `times`: when.
std::optional<Repetition> findRepetition(std::span<const uint64_t> symbols, std::span<const int64_t> times,
                                         uint64_t first = 0);

/// One number for two, to make symbols of.
inline uint64_t combined(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15ull ^ (b + 0x7f4a7c159e3779b9ull);
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  return x ^ (x >> 29);
}

}  // namespace tracesmith::analysis
