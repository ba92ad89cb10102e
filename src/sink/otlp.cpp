// OpenTelemetry's protocol over HTTP with protocol buffers: metrics to /v1/metrics, spans to /v1/traces. Field numbers
// are those of opentelemetry.proto.
#include <map>

#include "sink/http.hpp"
#include "trace/export/protobuf_writer.hpp"

namespace tracesmith::sink {
namespace {

constexpr uint64_t kMostItems = 4000;  // of a request: receivers take 4 MB or more
using trace::ProtobufWriter;

/// KeyValue { key = 1; AnyValue value = 2 { string_value = 1; int_value = 3 } }
void attribute(ProtobufWriter& out, int field, std::string_view key, const Span::Value& value) {
  const size_t pair = out.begin(field);
  out.text(1, key);
  const size_t any = out.begin(2);
  if (const auto* text = std::get_if<std::string>(&value))
    out.text(1, *text);
  else
    out.integer(3, std::get<int64_t>(value));
  out.end(any);
  out.end(pair);
}

/// The unit of a name, as UCUM writes it.
const char* unitOf(std::string_view name) {
  static constexpr std::pair<std::string_view, const char*> kUnits[] = {{"_bytes_per_second", "By/s"},
                                                                        {"_per_second", "1/s"},
                                                                        {"_seconds", "s"},
                                                                        {"_bytes", "By"},
                                                                        {"_ratio", "1"},
                                                                        {"_hertz", "Hz"},
                                                                        {"_watts", "W"},
                                                                        {"_celsius", "Cel"},
                                                                        {"_joules", "J"}};
  if (name.ends_with("_total")) name.remove_suffix(6);
  for (const auto& [ending, unit] : kUnits)
    if (name.ends_with(ending)) return unit;
  return "1";
}

/// The items that a receiver did not take: ExportMetricsServiceResponse and ExportTraceServiceResponse have
/// partial_success = 1 { int64 rejected = 1; string error_message = 2 }.
uint64_t rejectedIn(const std::string& answer) {
  auto byte = [&](size_t i) { return i < answer.size() ? static_cast<uint8_t>(answer[i]) : 0u; };
  if (byte(0) != 0x0a || byte(1) >= 0x80 || byte(2) != 0x08) return 0;
  uint64_t rejected = 0;
  for (size_t i = 3, shift = 0; i < answer.size() && shift < 63; ++i, shift += 7) {
    rejected |= static_cast<uint64_t>(byte(i) & 0x7f) << shift;
    if (byte(i) < 0x80) break;
  }
  return rejected;
}

class Otlp final : public Sink {
 public:
  Otlp(std::unique_ptr<HttpPoster> http, std::string instance, bool spans)
      : http_(std::move(http)), instance_(std::move(instance)), spans_(spans) {}
  const char* name() const override { return "otlp"; }
  std::string address() const override { return http_->address(); }
  void cancel() override { http_->cancel(); }
  bool takesSpans() const override { return spans_; }

  Delivery send(const Message& m) override {
    std::string path = http_->path();
    if (path.ends_with('/')) path.pop_back();
    std::string answer;
    Delivery delivery = http_->post(path + "/v1/" + m.kind, "application/x-protobuf", {}, m.body, &answer, true);
    delivery.rejected = rejectedIn(answer);
    if (delivery.rejected > 0) delivery.problem = address() + " did not take " + std::to_string(delivery.rejected);
    return delivery;
  }

  std::vector<Message> metrics(const MetricSet& metrics, int64_t unix_ns) override {
    // ExportMetricsServiceRequest { ResourceMetrics resource_metrics = 1 { resource = 1; ScopeMetrics scope_metrics = 2
    // { scope = 1; Metric metrics = 2 } } }
    std::vector<Message> messages;
    ProtobufWriter out;
    uint64_t items = 0;
    size_t all = 0, scope = 0;
    auto finish = [&] {
      if (items == 0) return;
      out.end(scope);
      out.end(all);
      messages.push_back({"metrics", std::exchange(items, 0), out.data()});
      out.clear();
    };
    for (const MetricFamily& family : metrics.families()) {
      if (family.samples.empty()) continue;
      for (std::span<const MetricSample> left(family.samples); !left.empty();) {
        if (items == 0) {
          all = out.begin(1);
          addResource(out, "");
          scope = beginScope(out);
        }
        const auto now = left.first(std::min<size_t>(left.size(), kMostItems - items));
        addMetric(out, family, now, unix_ns);
        left = left.subspan(now.size());
        items += now.size();
        if (items >= kMostItems) finish();
      }
    }
    finish();
    return messages;
  }

  std::vector<Message> spans(std::span<const Span> spans) override {
    std::vector<Message> messages;
    for (size_t from = 0; from < spans.size(); from += kMostItems)
      messages.push_back(message(spans.subspan(from, std::min<size_t>(kMostItems, spans.size() - from))));
    return messages;
  }

 private:
  /// ExportTraceServiceRequest { ResourceSpans resource_spans = 1 { resource = 1; ScopeSpans scope_spans = 2
  /// { scope = 1; Span spans = 2 } } }: a resource for each node.
  Message message(std::span<const Span> spans) const {
    std::map<std::string_view, std::vector<const Span*>> nodes;
    for (const Span& span : spans) nodes[span.node].push_back(&span);
    ProtobufWriter out;
    for (const auto& [node, of_node] : nodes) {
      const size_t all = out.begin(1);
      addResource(out, node);
      const size_t scope = beginScope(out);
      for (const Span* span : of_node) addSpan(out, *span);
      out.end(scope);
      out.end(all);
    }
    return {"traces", spans.size(), out.data()};
  }

  /// Resource { attributes = 1 }
  void addResource(ProtobufWriter& out, std::string_view node) const {
    const size_t resource = out.begin(1);
    attribute(out, 1, "service.name", "tracesmith");
    attribute(out, 1, "service.instance.id", instance_);
    if (!node.empty()) attribute(out, 1, "host.name", std::string(node));
    out.end(resource);
  }

  static size_t beginScope(ProtobufWriter& out) {
    const size_t of_scope = out.begin(2), scope = out.begin(1);
    out.text(1, "tracesmith");
    out.text(2, TRACESMITH_VERSION);
    out.end(scope);
    return of_scope;
  }

  /// Metric { name = 1; description = 2; unit = 3; Gauge gauge = 5 { data_points = 1 }; Sum sum = 7 { data_points = 1;
  /// aggregation_temporality = 2 (2: cumulative); is_monotonic = 3 } }
  /// NumberDataPoint { fixed64 time_unix_nano = 3; double as_double = 4; attributes = 7 }
  static void addMetric(ProtobufWriter& out, const MetricFamily& family, std::span<const MetricSample> samples,
                        int64_t unix_ns) {
    const bool counter = family.type == MetricType::counter;
    const size_t metric = out.begin(2);
    out.text(1, family.name);
    out.text(2, family.help);
    out.text(3, unitOf(family.name));
    const size_t data = out.begin(counter ? 7 : 5);
    for (const MetricSample& sample : samples) {
      const size_t point = out.begin(1);
      out.fixed64(3, static_cast<uint64_t>(unix_ns));
      out.real(4, sample.value);
      for (const auto& [label, value] : sample.labels) attribute(out, 7, label, value);
      out.end(point);
    }
    if (counter) {
      out.integer(2, 2);
      out.integer(3, 1);
    }
    out.end(data);
    out.end(metric);
  }

  /// Span { trace_id = 1; span_id = 2; parent_span_id = 4; name = 5; kind = 6 (1: internal); fixed64
  /// start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8; attributes = 9 }
  static void addSpan(ProtobufWriter& out, const Span& span) {
    auto bytes = [](const auto& id) { return std::string_view(reinterpret_cast<const char*>(id.data()), id.size()); };
    const size_t one = out.begin(2);
    out.bytes(1, bytes(span.trace_id));
    out.bytes(2, bytes(span.id));
    if (span.parent_id != std::array<uint8_t, 8>{}) out.bytes(4, bytes(span.parent_id));
    out.text(5, span.name);
    out.integer(6, 1);
    out.fixed64(7, static_cast<uint64_t>(span.start_ns));
    out.fixed64(8, static_cast<uint64_t>(span.end_ns));
    for (const auto& [key, value] : span.attributes) attribute(out, 9, key, value);
    out.end(one);
  }

  const std::unique_ptr<HttpPoster> http_;
  const std::string instance_;
  const bool spans_;
};

}  // namespace

Result<std::unique_ptr<Sink>> makeOtlp(const Options& options) {
  Result<std::unique_ptr<HttpPoster>> http = HttpPoster::open("otlp", options.otlp, "", options);
  if (!http) return http.status();
  return std::unique_ptr<Sink>(std::make_unique<Otlp>(std::move(*http), options.instance, options.spans != "none"));
}

}  // namespace tracesmith::sink
