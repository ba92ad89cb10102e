// Prometheus' text format: a HELP and a TYPE for each name, then its values.
#pragma once

#include <string>
#include <string_view>

#include "base/text.hpp"

namespace tracesmith {

class PrometheusText {
 public:
  void begin(const std::string& name, const char* type, const char* help) {
    name_ = name;
    out += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  /// `labels`: as label() makes them, with commas in between; may be empty.
  void value(const std::string& labels, double v) {
    out += name_ + (labels.empty() ? "" : "{" + labels + "}") + " ";
    appendJsonNumber(out, v);
    out += '\n';
  }
  static std::string label(const char* key, std::string_view value) {
    std::string clean, text = std::string(key) + "=\"";
    appendUtf8(clean, value);
    for (char c : clean) {
      if (c == '\\' || c == '"') text += '\\';
      text += c == '\n' ? ' ' : c;
    }
    return text + '"';
  }
  std::string out;

 private:
  std::string name_;
};

}  // namespace tracesmith
