// How fast a rank trains: see rate.def.
#pragma once

#include <optional>
#include <string_view>

#include "model/hook_names.hpp"

namespace tracesmith::model {

struct Rates {
#define RATE(field, counter, metric, scale, doc) std::optional<double> field;
#include "model/rate.def"
};

struct RateInfo {
  std::string_view counter;           ///< that the hooks record
  const char *field, *metric, *help;  ///< in JSON; for Prometheus, after "tracesmith_"
  double scale;                       ///< of the counter, in the metric's unit
  std::optional<double> Rates::*value;
};

constexpr RateInfo kRates[] = {
#define RATE(field, counter, metric, scale, doc) {counter, #field, metric, doc, scale, &Rates::field},
#include "model/rate.def"
};

/// The rates of anything that has them as fields.
template <typename T>
Rates ratesOf(const T& report) {
  Rates rates;
#define RATE(field, counter, metric, scale, doc) rates.field = report.field;
#include "model/rate.def"
  return rates;
}
template <typename T>
void setRates(T& report, const Rates& rates) {
#define RATE(field, counter, metric, scale, doc) report.field = rates.field;
#include "model/rate.def"
}

}  // namespace tracesmith::model
