// What watch mode did, and what it costs the job: as run, info and the trace tell it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/ring/layout.hpp"

namespace tracesmith::capture {

struct Watched {
  uint32_t window_steps = 0, window_every = 0;         ///< the GPU is recorded in some of every so many steps
  uint32_t window_asked = 0;                           ///< what `window_every` was before the budget doubled it
  std::optional<double> budget_percent, cost_percent;  ///< of the job's time; the cost with the windows as they are now
  bool operator==(const Watched&) const = default;
};

/// Nothing for a process that is not in watch mode, or does not use CUDA.
std::optional<Watched> watchedIn(const ring::RingHeader& header);
/// Several processes as one: the thinnest windows, the largest cost.
void merge(std::optional<Watched>& all, const Watched& one);
/// "The GPU is recorded in 2 of every 200 steps (…); it costs 0.41 % of the job's time".
std::string sentenceOf(const Watched& watched);
std::string jsonOf(const Watched& watched);

}  // namespace tracesmith::capture
