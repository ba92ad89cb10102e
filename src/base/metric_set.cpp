#include "base/metric_set.hpp"

#include <cmath>

#include "base/text.hpp"

namespace tracesmith {
namespace {

void appendLabels(std::string& out, const MetricLabels& labels) {
  char before = '{';
  for (const auto& [name, value] : labels) {
    out += before;
    before = ',';
    out += name;
    out += "=\"";
    std::string clean;
    appendUtf8(clean, value);
    for (char c : clean) {
      if (c == '\\' || c == '"') out += '\\';
      if (c == '\n')
        out += "\\n";
      else
        out += c;
    }
    out += '"';
  }
  if (!labels.empty()) out += '}';
}

}  // namespace

std::string prometheusText(const MetricSet& metrics) {
  std::string out;
  for (const MetricFamily& family : metrics.families()) {
    out += "# HELP " + family.name + " " + family.help + "\n# TYPE " + family.name +
           (family.type == MetricType::counter ? " counter\n" : " gauge\n");
    for (const MetricSample& sample : family.samples) {
      out += family.name;
      appendLabels(out, sample.labels);
      out += ' ';
      if (std::isfinite(sample.value))
        appendJsonNumber(out, sample.value);
      else
        out += std::isnan(sample.value) ? "NaN" : sample.value > 0 ? "+Inf" : "-Inf";
      out += '\n';
    }
  }
  return out;
}

}  // namespace tracesmith
