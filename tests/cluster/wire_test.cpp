// Everything that travels comes out of its message as it went in.
#include <gtest/gtest.h>

#include "cluster/wire/live_convert.hpp"

namespace tracesmith::cluster {
namespace {

using namespace model;

template <typename Kind>
typename Kind::type value(int n) {
  if constexpr (std::is_same_v<typename Kind::type, std::string>)
    return "text " + std::to_string(n);
  else
    return static_cast<typename Kind::type>(n);
}

// fill: a value of its own in every field.
#define STRUCT(Name, Message, doc) [[maybe_unused]] void fill(Name& s, int& n) {
#define STRUCT_OF(Name, Message, Base, doc) \
  STRUCT(Name, Message, doc)                \
  fill(static_cast<Base&>(s), n);
#define FIELD(Struct, Kind, name, doc) s.name = value<kind::Kind>(++n);
#define MAYBE(Struct, Kind, name, doc) s.name = value<kind::Kind>(++n);
#define LIST(Struct, Kind, name, most, doc) s.name = {value<kind::Kind>(++n), value<kind::Kind>(++n)};
#define CHOICE(Struct, Enum, name, doc) s.name = static_cast<Enum>(1);
#define PART(Struct, Other, name, doc) fill(s.name, n);
#define MAYBE_PART(Struct, Other, name, doc) fill(s.name.emplace(), n);
#define PARTS(Struct, Other, name, most, doc) \
  fill(s.name.emplace_back(), n);             \
  fill(s.name.emplace_back(), n);
#define END_STRUCT(Name) }
#include "model/travel.def"

template <typename Struct, typename Message>
void goesThere(const char* name) {
  Struct full, none;
  int n = 0;
  fill(full, n);
  for (const Struct* s : {&full, &none}) {
    Message message;
    toMessage(*s, message);
    Message parsed;
    ASSERT_TRUE(parsed.ParseFromString(message.SerializeAsString()));
    EXPECT_TRUE(fromMessage(parsed) == *s) << name << ": " << message.ShortDebugString();
  }
}

TEST(Wire, EveryFieldComesBack) {
#define STRUCT(Name, Message, doc) goesThere<model::Name, pb::Message>(#Name);
#define STRUCT_OF(Name, Message, Base, doc) goesThere<model::Name, pb::Message>(#Name);
#define KEPT(Name, doc)
#define KEPT_OF(Name, Base, doc)
#include "model/travel.def"
}

TEST(Wire, AnEventOfNoRankHasNone) {
  pb::TraceEvent message;
  toMessage(LiveEvent{}, message);
  EXPECT_FALSE(message.has_rank());
  EXPECT_FALSE(fromMessage(message).rank.has_value());
}

TEST(Wire, ListsAndTextsAreBounded) {
  pb::LiveReport message;
  for (int i = 0; i < 2000; ++i) message.add_gpus()->set_name(std::string(10'000, 'x'));
  const NodeReport report = takeReport(message);
  ASSERT_EQ(report.gpus.size(), 1024u);
  EXPECT_EQ(report.gpus[0].name.size(), 4096u);
}

TEST(Wire, AReportHasAllTheMetricsWeKnowAndNoOthers) {
  pb::LiveReport message;
  pb::LiveMetric& power = *message.add_gpus()->add_metrics();
  power.set_name("gpu_power_watts");
  power.set_value(300);
  message.mutable_gpus(0)->add_metrics()->set_name("something else");
  const NodeReport report = takeReport(message);
  ASSERT_EQ(report.gpus[0].metrics.size(), liveMetricNames().size());
  for (size_t i = 0; i < liveMetricNames().size(); ++i) {
    const Metric& m = report.gpus[0].metrics[i];
    EXPECT_EQ(m.name, liveMetricNames()[i]);
    EXPECT_EQ(m.value.has_value(), m.name == "gpu_power_watts");
  }
}

}  // namespace
}  // namespace tracesmith::cluster
