// Prometheus remote write 1.0: protocol buffers, compressed with snappy. The message is WriteRequest of Prometheus:
//   WriteRequest { TimeSeries timeseries = 1; MetricMetadata metadata = 3 }
//   TimeSeries { Label labels = 1; Sample samples = 2 }   Label { name = 1; value = 2 }
//   Sample { double value = 1; int64 timestamp = 2 (ms) }
//   MetricMetadata { type = 1 (1 counter, 2 gauge); metric_family_name = 2; help = 4 }
#include <algorithm>

#include <snappy.h>

#include "sink/http.hpp"
#include "trace/export/protobuf_writer.hpp"

namespace tracesmith::sink {
namespace {

constexpr size_t kMostSeries = 2000;  // of a request; receivers limit its size
using trace::ProtobufWriter;

class RemoteWrite final : public Sink {
 public:
  RemoteWrite(std::unique_ptr<HttpPoster> http, std::string instance)
      : http_(std::move(http)), instance_(std::move(instance)) {}
  const char* name() const override { return "remote-write"; }
  std::string address() const override { return http_->address(); }
  void cancel() override { http_->cancel(); }

  Delivery send(const Message& m) override {
    return http_->post(http_->path(), "application/x-protobuf",
                       {{"Content-Encoding", "snappy"}, {"X-Prometheus-Remote-Write-Version", "0.1.0"}}, m.body);
  }

  std::vector<Message> metrics(const MetricSet& metrics, int64_t unix_ns) override {
    std::vector<Message> messages;
    ProtobufWriter out;
    uint64_t series = 0;
    auto finish = [&] {
      if (series == 0) return;
      Message& m = messages.emplace_back(Message{"metrics", std::exchange(series, 0), {}});
      snappy::Compress(out.data().data(), out.data().size(), &m.body);
      out.clear();
    };
    for (const MetricFamily& family : metrics.families()) {
      if (family.samples.empty()) continue;
      const size_t metadata = out.begin(3);
      out.integer(1, family.type == MetricType::counter ? 1 : 2);
      out.text(2, family.name);
      out.text(4, family.help);
      out.end(metadata);
      for (const MetricSample& sample : family.samples) {
        add(out, family, sample, unix_ns / 1'000'000);
        if (++series >= kMostSeries) finish();
      }
    }
    finish();
    return messages;
  }

 private:
  void add(ProtobufWriter& out, const MetricFamily& family, const MetricSample& sample, int64_t ms) {
    labels_ = sample.labels;
    labels_.emplace_back("__name__", family.name);
    labels_.emplace_back("instance", instance_);
    labels_.emplace_back("job", "tracesmith");
    std::sort(labels_.begin(), labels_.end());  // as receivers want them
    const size_t series = out.begin(1);
    for (const auto& [name, value] : labels_) {
      if (value.empty()) continue;
      const size_t label = out.begin(1);
      out.text(1, name);
      out.text(2, value);
      out.end(label);
    }
    const size_t one = out.begin(2);
    out.real(1, sample.value);
    out.integer(2, ms);
    out.end(one);
    out.end(series);
  }

  const std::unique_ptr<HttpPoster> http_;
  const std::string instance_;
  MetricLabels labels_;
};

}  // namespace

Result<std::unique_ptr<Sink>> makeRemoteWrite(const Options& options) {
  Result<std::unique_ptr<HttpPoster>> http =
      HttpPoster::open("remote-write", options.remote_write, "/api/v1/write", options);
  if (!http) return http.status();
  return std::unique_ptr<Sink>(std::make_unique<RemoteWrite>(std::move(*http), options.instance));
}

}  // namespace tracesmith::sink
