// The same metrics in each protocol, read by something other than what wrote them.
#include <cmath>

#include "sink/sink.hpp"
#include "support/process.hpp"

#include <gtest/gtest.h>

namespace tracesmith::sink {
namespace {

constexpr int64_t kNow = 1'700'000'000'123'456'789;

MetricSet sample() {
  MetricSet m;
  m.begin("tracesmith_node_up", MetricType::gauge, "1 while it is");
  m.value({{"node", "a b,c=d"}}, 1);
  m.value({{"node", "n\n2"}, {"empty", ""}}, -0.5);
  m.value({{"node", "n3"}}, std::nan(""));
  m.begin("tracesmith_records_total", MetricType::counter, "how many");
  m.value({}, 7);
  return m;
}

std::unique_ptr<Sink> make(Result<std::unique_ptr<Sink>> sink) {
  EXPECT_TRUE(sink) << sink.status().message();
  return sink ? std::move(*sink) : nullptr;
}

Options options() {
  Options o;
  o.remote_write = o.otlp = o.influx = "http://127.0.0.1:1";
  o.statsd = "127.0.0.1:1";
  o.instance = "head";
  return o;
}

TEST(InfluxLines, EscapeWhatTheFormatUses) {
  const auto sink = make(makeInflux(options()));
  const std::vector<Message> messages = sink->metrics(sample(), kNow);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].items, 3u) << "the format has no NaN";
  EXPECT_EQ(messages[0].body,
            "tracesmith_node_up,instance=head,node=a\\ b\\,c\\=d value=1 1700000000123456789\n"
            "tracesmith_node_up,instance=head,node=n_2 value=-0.5 1700000000123456789\n"
            "tracesmith_records_total,instance=head value=7 1700000000123456789\n");
  EXPECT_EQ(sink->address(), "http://127.0.0.1:1/write");
}

TEST(StatsdLines, SendTheGrowthOfCountersAndSetNegativeGauges) {
  const auto sink = make(makeStatsd(options()));
  std::vector<Message> messages = sink->metrics(sample(), kNow);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].body,
            "tracesmith_node_up:1|g|#instance:head,node:a_b_c=d\n"
            "tracesmith_node_up:0|g|#instance:head,node:n_2\n"
            "tracesmith_node_up:-0.5|g|#instance:head,node:n_2\n")
      << "how much a counter has grown is not known yet";
  MetricSet later;
  later.begin("tracesmith_records_total", MetricType::counter, "how many");
  later.value({}, 10);
  EXPECT_EQ(sink->metrics(later, kNow)[0].body, "tracesmith_records_total:3|c|#instance:head\n");
  MetricSet restarted;
  restarted.begin("tracesmith_records_total", MetricType::counter, "how many");
  restarted.value({}, 2);
  EXPECT_EQ(sink->metrics(restarted, kNow)[0].body, "tracesmith_records_total:2|c|#instance:head\n");
}

TEST(StatsdLines, FitIntoDatagrams) {
  MetricSet m;
  m.begin("tracesmith_x", MetricType::gauge, "x");
  for (int i = 0; i < 1000; ++i) m.value({{"node", std::to_string(i)}}, i);
  uint64_t items = 0;
  for (const Message& message : make(makeStatsd(options()))->metrics(m, kNow)) {
    EXPECT_LE(message.body.size(), 1432u);
    items += message.items;
  }
  EXPECT_EQ(items, 1000u);
}

TEST(Otlp, IsWhatTheSpecificationSays) {
  if (test::run({"protoc", "--version"}).rc != 0) GTEST_SKIP() << "protoc is not installed";
  auto decode = [](const std::string& type, const std::string& bytes) {
    return test::run({"protoc", "--decode=otlp." + type, "-I" TRACESMITH_SOURCE_DIR "/tests/support", "otlp.proto"},
                     bytes);
  };
  const auto sink = make(makeOtlp(options()));
  const std::vector<Message> messages = sink->metrics(sample(), kNow);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].items, 4u);
  const test::Output metrics = decode("MetricsRequest", messages[0].body);
  EXPECT_EQ(metrics.rc, 0) << metrics.err;
  for (const char* part :
       {"key: \"service.instance.id\"", "name: \"tracesmith_node_up\"", "string_value: \"a b,c=d\"", "as_double: -0.5",
        "time_unix_nano: 1700000000123456789", "aggregation_temporality: CUMULATIVE", "is_monotonic: true"})
    EXPECT_NE(metrics.out.find(part), std::string::npos) << part << "\n" << metrics.out;
  Span span;
  span.trace_id[0] = 'T';
  span.id[0] = 'I';
  span.node = "n1";
  span.name = "all_reduce";
  span.start_ns = kNow;
  span.end_ns = kNow + 5;
  span.attributes = {{"tracesmith.rank", int64_t{3}}};
  const test::Output spans = decode("TracesRequest", sink->spans({&span, 1})[0].body);
  EXPECT_EQ(spans.rc, 0) << spans.err;
  for (const char* part : {"trace_id: \"T\\000", "span_id: \"I\\000", "name: \"all_reduce\"", "kind: INTERNAL",
                           "start_time_unix_nano: 1700000000123456789", "end_time_unix_nano: 1700000000123456794",
                           "key: \"tracesmith.rank\"", "int_value: 3", "string_value: \"n1\""})
    EXPECT_NE(spans.out.find(part), std::string::npos) << part << "\n" << spans.out;
  EXPECT_EQ(spans.out.find("parent_span_id"), std::string::npos);
}

TEST(Otlp, LargeSetsAreSplit) {
  MetricSet m;
  m.begin("tracesmith_x", MetricType::gauge, "x");
  for (int i = 0; i < 9000; ++i) m.value({{"node", std::to_string(i)}}, i);
  const std::vector<Message> messages = make(makeOtlp(options()))->metrics(m, kNow);
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[2].items, 1000u);
}

TEST(SinkAddress, IsCheckedBeforeAnythingIsSent) {
  Options o = options();
  for (const char* bad : {"prometheus:9090", "ftp://x", "http://", "http://:9090/x", "http://a b/"}) {
    o.remote_write = bad;
    EXPECT_FALSE(makeRemoteWrite(o)) << bad;
  }
  o.remote_write = "http://user:secret@host/";
  const Result<std::unique_ptr<Sink>> sink = makeRemoteWrite(o);
  ASSERT_FALSE(sink);
  EXPECT_NE(sink.status().message().find("TRACESMITH_REMOTE_WRITE_AUTHORIZATION"), std::string::npos);
  o.statsd = "host";
  EXPECT_FALSE(makeStatsd(o));
  o.influx = "https://host/api/v2/write?org=o&bucket=b";
  const auto influx = make(makeInflux(o));
  EXPECT_EQ(influx->address(), "https://host/api/v2/write");
}

}  // namespace
}  // namespace tracesmith::sink
