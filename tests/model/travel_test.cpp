// What travels is declared once: every way it goes has all of its fields.
#include <gtest/gtest.h>

#include <cmath>

#include "model/travel_json.hpp"
#include "model/travel_lines.hpp"

namespace tracesmith::model {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

NodeRegistration node() {
  NodeRegistration n;
  n.node = "alpha";
  n.hostname = "host of alpha";
  n.agent_id = "a1";
  n.boot_id = "b1";
  n.version = "1.0";
  n.address = "10.0.0.1:50052";
  n.simulated = true;
  n.gpus.resize(2);
  n.gpus[0].memory_bytes = 80'000'000'000;
  n.gpus[0].name = "Simulated H100 80GB 100%";
  n.gpus[0].simulated = true;
  n.gpus[1].index = 1;
  return n;
}

SessionRecord session() {
  SessionRecord s;
  s.id = "abc123";
  s.name = "week";
  s.start_ns = 1'700'000'000'000'000'001;
  s.end_ns = 1'700'000'000'000'000'009;
  s.freq_ms = 500;
  s.max_bytes = 1u << 20;
  s.max_age_s = 0.1234567;
  s.nodes = {"alpha", "beta"};
  s.pauses = {{1, 2}, {3, 4}};
  s.removed_rows = 7;
  s.complete = true;
  return s;
}

TEST(TravelLines, ASessionReadsBackAsItWas) {
  SessionRecord back;
  fromLines(toLines(session()), back);
  EXPECT_EQ(back, session());
}

TEST(TravelLines, ANodeReadsBackAsItWas) {
  NodeRegistration back;
  fromLines(toLines(node()), back);
  EXPECT_EQ(back, node()) << toLines(node());
}

TEST(TravelLines, FilesOfOlderVersionsAreRead) {
  SessionRecord s;
  fromLines(
      "id abc123\nname week\nstart_ns 1700000000000000001\nend_ns 1700000000000000009\nfreq_ms 500\n"
      "max_bytes 1048576\nmax_age_s 0.123457\nremoved_rows 7\ncomplete 1\nnode alpha\nnode beta\n"
      "pause 1 2\npause 3 4\n",
      s);
  SessionRecord expected = session();
  expected.max_age_s = 0.123457;
  EXPECT_EQ(s, expected);
  NodeRegistration n;
  fromLines("hostname h\naddress 1.2.3.4:5\nversion 1.0\ngpu 3 80000000000 Simulated H100 80GB\n", n);
  EXPECT_EQ(n.hostname, "h");
  ASSERT_EQ(n.gpus.size(), 1u);
  EXPECT_EQ(n.gpus[0].index, 3u);
  EXPECT_EQ(n.gpus[0].memory_bytes, 80'000'000'000u);
  EXPECT_EQ(n.gpus[0].name, "Simulated H100 80GB");
  CaptureSpan c;
  fromLine("abc123 17 0 500", c);
  EXPECT_EQ(c, (CaptureSpan{"abc123", 17, 0, 500}));
  CaptureSpan again;
  fromLine(toLine(c), again);
  EXPECT_EQ(again, c);
}

TEST(TravelLines, DamagedLinesDoNoHarm) {
  SessionRecord s;
  fromLines("\n \nstart_ns x\nend_ns\nnode\npause\npause = =\nunknown 1\nfreq_ms 99999999999999999999\nname", s);
  EXPECT_EQ(s.start_ns, 0);
  EXPECT_EQ(s.pauses.size(), 2u);
  EXPECT_EQ(s.freq_ms, 0u);
}

TEST(TravelJson, WhatIsNotKnownIsNull) {
  NodeStatus n;
  n.node = "alpha";
  EXPECT_TRUE(has(toJson(n), R"("silent_s":null)")) << toJson(n);
  EXPECT_TRUE(has(toJson(n), R"("clock":null)"));
  EXPECT_TRUE(has(toJson(n), R"("problem":null)"));
  n.silent_s = 1.5;
  n.clock = ClockStatus{1'700'000'000'000'000'001, 0.5, 10, 20, "exchange", 0};
  EXPECT_TRUE(has(toJson(n), R"("silent_s":1.5)"));
  EXPECT_TRUE(has(toJson(n), R"("clock":{"offset_ns":"1700000000000000001","drift_ppm":0.5,"bound_ns":10)"))
      << toJson(n);
  HangVerdict v;
  v.culprits.push_back({-1, "", {}, "no agent reports it", 0.5, {}, {}});
  v.communicators.push_back({"world", "all_reduce", 3, -1, {0, -1}, {}, 8, 1, ""});
  EXPECT_TRUE(has(toJson(HangAnswer{v, {}}), R"("since":null)"));
  EXPECT_TRUE(has(toJson(HangAnswer{v, {}}), R"("culprits":[{"rank":null,"node":null,)")) << toJson(HangAnswer{v, {}});
  EXPECT_TRUE(has(toJson(HangAnswer{v, {}}), R"("ranks":null,"entered":[0,null],"missing":[])"))
      << toJson(HangAnswer{v, {}});
}

TEST(TravelJson, AnswersHaveTheirTuplesAndListsOfNumbers) {
  TileTrack track;
  track.detail = TileDetail::slices;
  track.buckets.push_back({3, 0.12345, 7, 0, 2, 1});
  track.slices.push_back({10, 20, 1, 0, "e4.2", 0});
  EXPECT_EQ(toJson(track),
            R"({"id":0,"detail":"slices","buckets":[[3,0.123,7,0,2,1]],"slices":[[10,20,1,0,"e4.2",0]]})");
  EXPECT_TRUE(has(toJson(MetricLine{"alpha", {}, "", {1.5, std::nan(""), 1234567}}),
                  R"("index":null,"name":"","values":[1.5,null,1.23457e+06])"));
  EXPECT_TRUE(has(toJson(DeviceMetrics{"alpha", 0, "H200", false, 0, {{"power", 700.0}, {"clock", {}}}}),
                  R"("metrics":{"power":700,"clock":null})"));
}

TEST(TravelJson, TimesAreTextsUnderTheirNameWithoutTheUnit) {
  SessionInfo s;
  s.id = "abc123";
  s.start_ns = 1'700'000'000'000'000'001;
  EXPECT_TRUE(has(toJson(s), R"("start":"1700000000000000001","end":null,)")) << toJson(s);
}

TEST(TravelJson, AnAlertHasTheSeverityOfItsKind) {
  EXPECT_EQ(toJson(alertOf(5, AlertKind::silent_node, "node b")),
            R"({"t":"5","kind":"silent_node","severity":"warning","text":"node b"})");
}

}  // namespace
}  // namespace tracesmith::model
