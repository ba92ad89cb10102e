// How a node's clock relates to the reference clock: one row of `clocks`.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

namespace tracesmith::trace {

/// reference = ts + offset_ns + drift_ppm × (ts − at_ns) / 10⁶. SQL has the same formula in the macro reference_ts.
struct ClockModel {
  int64_t at_ns = 0;
  int64_t offset_ns = 0;
  double drift_ppm = 0;
  int64_t bound_ns = INT64_MAX;  ///< of the error at at_ns; INT64_MAX: nothing is known
  std::string method = {};       ///< how it was found: "exchange", "system clock", "collectives"

  bool valid() const { return bound_ns != INT64_MAX; }
  int64_t toReference(int64_t ts) const {
    const double drift = drift_ppm * 1e-6 * static_cast<double>(ts - at_ns);
    return ts + offset_ns + static_cast<int64_t>(drift < 0 ? drift - 0.5 : drift + 0.5);
  }
  int64_t toRaw(int64_t reference) const {
    const int64_t since = reference - offset_ns - at_ns;  // of the reference clock
    return at_ns + std::llround(static_cast<double>(since) / (1 + drift_ppm / 1e6));
  }
};

}  // namespace tracesmith::trace
