// InfluxDB's line protocol over HTTP: a line for each value, which is the field `value` of the measurement.
#include <cmath>

#include "base/text.hpp"
#include "sink/http.hpp"

namespace tracesmith::sink {
namespace {

constexpr uint64_t kMostLines = 5000;  // of a request

/// Commas, blanks and equals signs have a backslash before them; a line break or a backslash would end or change what
/// follows.
void appendName(std::string& out, std::string_view text) {
  std::string clean;
  appendUtf8(clean, text);
  for (char c : clean) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\\') c = '_';
    if (c == ',' || c == ' ' || c == '=') out += '\\';
    out += c;
  }
}

class Influx final : public Sink {
 public:
  Influx(std::unique_ptr<HttpPoster> http, std::string instance)
      : http_(std::move(http)), instance_(std::move(instance)) {}
  const char* name() const override { return "influx"; }
  std::string address() const override { return http_->address(); }
  void cancel() override { http_->cancel(); }
  Delivery send(const Message& m) override {
    return http_->post(http_->path(), "text/plain; charset=utf-8", {}, m.body);
  }

  std::vector<Message> metrics(const MetricSet& metrics, int64_t unix_ns) override {
    std::vector<Message> messages;
    const std::string end = " " + std::to_string(unix_ns) + "\n";
    for (const MetricFamily& family : metrics.families())
      for (const MetricSample& sample : family.samples) {
        if (!std::isfinite(sample.value)) continue;  // the format has none
        if (messages.empty() || messages.back().items >= kMostLines) messages.push_back({"metrics", 0, {}});
        std::string& out = messages.back().body;
        appendName(out, family.name);
        addTag(out, "instance", instance_);
        for (const auto& [label, value] : sample.labels) addTag(out, label, value);
        out += " value=";
        appendJsonNumber(out, sample.value);
        out += end;
        ++messages.back().items;
      }
    return messages;
  }

 private:
  static void addTag(std::string& out, const std::string& label, const std::string& value) {
    if (value.empty()) return;
    out += ',';
    appendName(out, label);
    out += '=';
    appendName(out, value);
  }

  const std::unique_ptr<HttpPoster> http_;
  const std::string instance_;
};

}  // namespace

Result<std::unique_ptr<Sink>> makeInflux(const Options& options) {
  Result<std::unique_ptr<HttpPoster>> http =
      HttpPoster::open("influx", options.influx, "/write?db=tracesmith", options);
  if (!http) return http.status();
  return std::unique_ptr<Sink>(std::make_unique<Influx>(std::move(*http), options.instance));
}

}  // namespace tracesmith::sink
