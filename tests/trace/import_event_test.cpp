// What becomes of each kind of event.
#include <gtest/gtest.h>

#include "support/imported.hpp"
#include "trace/import/json_cursor.hpp"

namespace tracesmith::trace {
namespace {

using test::asArray;
using test::asObject;
using test::at;
using test::Imported;
using test::only;

TEST(ImportTime, IsExact) {
  auto ns = [](const char* text) {
    int64_t v = -1;
    EXPECT_TRUE(parseMicros(text, v)) << text;
    return v;
  };
  EXPECT_EQ(ns("123456.789"), 123456789);
  EXPECT_EQ(ns("4458676522690.655"), 4458676522690655);
  EXPECT_EQ(ns("1694039968955744"), 1694039968955744000);
  EXPECT_EQ(ns("9007199254740993.001"), 9007199254740993001);  // no double holds it
  EXPECT_EQ(ns("0.0004"), 0);
  EXPECT_EQ(ns("0.0005"), 1);
  EXPECT_EQ(ns("1.9999"), 2000);
  EXPECT_EQ(ns("-1.5"), -1500);
  EXPECT_EQ(ns("1.5e3"), 1500000);
  EXPECT_EQ(ns("1E-3"), 1);
  EXPECT_EQ(ns("\"12.5\""), 12500);
  int64_t v;
  for (const char* bad : {"", "x", "\"\"", "1e300", "99999999999999999999", "12x", "null", "-", "9300000000000000"})
    EXPECT_FALSE(parseMicros(bad, v)) << bad;
}

TEST(ImportTime, IntegersAndTokens) {
  int64_t v;
  EXPECT_TRUE(parseToken("7", v) && v == 7);
  EXPECT_TRUE(parseToken("\"7\"", v) && v == 7);
  EXPECT_TRUE(parseToken("7.0", v) && v == 7);
  EXPECT_TRUE(parseToken("-7e2", v) && v == -700);
  for (const char* bad : {"7.5", "\"0x0\"", "18446744073709551615", "-9223372036854775808", "", "[7]", "1e99"})
    EXPECT_FALSE(parseToken(bad, v)) << bad;
}

constexpr const char* kKernel =
    R"({"ph": "X", "cat": "kernel", "name": "k<\"a\">", "pid": 0, "tid": 7, "ts": 100.250, "dur": 41.407, "args": {"External id": 9, "queued": 0,
        "device": 0, "context": 1, "stream": 7, "correlation": 55, "registers per thread": 40, "shared memory": 400, "blocks per SM": 4.740741,
        "grid": [512, 1, 1], "block": [64, 2, 1], "graph id": 3, "graph node id": 4, "est. achieved occupancy %": 75}})";

TEST(ImportEvent, KernelFillsColumnsAndKeepsTheRest) {
  for (const std::string& text : {asArray(kKernel), asObject(kKernel)}) {
    Imported t(text);
    ASSERT_TRUE(t.report) << t.error();
    auto rows = t.rows("events");
    ASSERT_EQ(rows.size(), 1u);
    const test::Row expected = {{"ts", "100250"},
                                {"dur", "41407"},
                                {"ts_end", "141657"},
                                {"type", "kernel"},
                                {"name", "k<\"a\">"},
                                {"device", "0"},
                                {"stream", "7"},
                                {"correlation", "55"},
                                {"launch", "512,1,1,64,2,1,40,400,"},
                                {"context", "1"},
                                {"graph", "3"},
                                {"graph_node", "4"},
                                {"external_id", "9"},
                                {"args", R"({"queued": 0,"blocks per SM": 4.740741,"est. achieved occupancy %": 75})"}};
    EXPECT_EQ(rows[0], expected);
  }
}

TEST(ImportEvent, DeviceRowsGetTheProcessThatLaunchedThem) {
  std::string launch =
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":4242,"tid":4243,"ts":90,"dur":5,"args":{"correlation":55}})";
  Imported t(asArray(std::string(kKernel) + "," + launch));
  auto kernel = only(t.rows("events"), "type", "kernel");
  EXPECT_EQ(at(kernel, "pid"), "4242");
  EXPECT_EQ(at(kernel, "tid"), "NULL");
  EXPECT_EQ(at(only(t.rows("events"), "type", "runtime"), "tid"), "4243");
  EXPECT_EQ(at(only(t.rows("processes"), "pid", "4242"), "pid"), "4242");
}

TEST(ImportEvent, TwoLaunchingProcessesLeaveItOpen) {
  std::string launches;
  for (const char* pid : {"1", "2"})
    launches +=
        std::string(R"(,{"ph":"X","cat":"cuda_runtime","name":"l","pid":)") + pid + R"(,"tid":1,"ts":9,"dur":1})";
  Imported t(asArray(kKernel + launches));
  EXPECT_EQ(at(only(t.rows("events"), "type", "kernel"), "pid"), "NULL");
}

TEST(ImportEvent, SeparateSharedMemory) {
  Imported t(asArray(
      R"({"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1,"args":{"static shared memory":16,"dynamic shared memory":32,"grid":[1,2]}})"));
  auto row = t.rows("events").at(0);
  EXPECT_EQ(at(row, "launch"), ",,,,,,,16,32");
  EXPECT_EQ(at(row, "args"), R"({"grid":[1,2]})");
}

TEST(ImportEvent, CategoriesBecomeTypes) {
  const std::pair<const char*, const char*> kinds[] = {{"kernel", "kernel"},
                                                       {"gpu_memcpy", "memcpy"},
                                                       {"gpu_memset", "memset"},
                                                       {"cuda_runtime", "runtime"},
                                                       {"cuda_driver", "driver"},
                                                       {"cuda_sync", "sync"},
                                                       {"overhead", "overhead"},
                                                       {"cpu_op", "cpu_op"},
                                                       {"user_annotation", "annotation"},
                                                       {"gpu_user_annotation", "gpu_annotation"},
                                                       {"python_function", "python"}};
  for (auto [cat, type] : kinds) {
    Imported t(asArray(std::string(R"({"ph":"X","cat":")") + cat + R"(","name":"n","pid":1,"tid":2,"ts":1,"dur":2})"));
    auto row = t.rows("events").at(0);
    EXPECT_EQ(at(row, "type"), type);
    EXPECT_EQ(at(row, "args"), "NULL") << cat;
  }
  const std::pair<const char*, const char*> others[] = {
      {"Kernel", "kernel"},   {"Memcpy", "memcpy"}, {"Memset", "memset"},        {"Runtime", "runtime"},
      {"Operator", "cpu_op"}, {"Trace", "other"},   {"mtia_ccp_events", "other"}};
  for (auto [cat, type] : others) {
    Imported t(asArray(std::string(R"({"ph":"X","cat":")") + cat + R"(","name":"n","pid":1,"tid":2,"ts":1,"dur":2})"));
    auto row = t.rows("events").at(0);
    EXPECT_EQ(at(row, "type"), type);
    EXPECT_EQ(at(row, "args"), std::string(R"({"cat":")") + cat + "\"}");
  }
}

TEST(ImportEvent, HostRowsKeepDeviceAndStreamInArgs) {
  Imported t(asArray(
      R"({"ph":"X","cat":"cuda_runtime","name":"hipMemcpy","pid":1,"tid":2,"ts":1,"dur":2,"args":{"stream":"0x0","device":3,"bytes":"64"}})"));
  auto row = t.rows("events").at(0);
  EXPECT_EQ(at(row, "args"), R"({"stream":"0x0","device":3})");
  EXPECT_EQ(at(row, "device"), "NULL");
  EXPECT_EQ(at(row, "bytes"), "64");
}

TEST(ImportEvent, DeviceAndStreamFromPidAndTidWhereArgsLackThem) {
  Imported t(asArray(R"({"ph":"X","cat":"gpu_user_annotation","name":"a","pid":2,"tid":"stream 7","ts":1,"dur":2})"));
  auto row = t.rows("events").at(0);
  EXPECT_EQ(at(row, "device"), "2");
  EXPECT_EQ(at(row, "stream"), "7");
  EXPECT_EQ(at(only(t.rows("threads"), "tid", "7"), "name"), "stream 7");
}

TEST(ImportEvent, NamesInsteadOfNumbersAreNumbered) {
  std::string events;
  for (const char* place : {R"("pid":"Spans","tid":"PyTorch Profiler")", R"("pid":"Traces","tid":"x")",
                            R"("pid":"Spans","tid":"y")", R"("pid":"5555","tid":5)"})
    events += std::string(events.empty() ? "" : ",") + R"({"ph":"X","name":"n",)" + place + R"(,"ts":1,"dur":1})";
  Imported t(asArray(events));
  auto rows = t.rows("events");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(at(rows[0], "pid"), at(rows[2], "pid"));
  EXPECT_NE(at(rows[0], "pid"), at(rows[1], "pid"));
  EXPECT_LT(std::stoll(at(rows[0], "pid")), -1);
  EXPECT_LT(std::stoll(at(rows[0], "tid")), -1);
  EXPECT_EQ(at(rows[3], "pid"), "5555");
  EXPECT_EQ(at(only(t.rows("processes"), "name", "Spans"), "pid"), at(rows[0], "pid"));
  auto thread = only(t.rows("threads"), "name", "PyTorch Profiler");
  EXPECT_EQ(at(thread, "pid"), at(rows[0], "pid"));
  EXPECT_EQ(at(thread, "tid"), at(rows[0], "tid"));
}

TEST(ImportEvent, NamesThatWouldMeetGetDifferentNumbers) {
  Imported t(asArray(R"({"ph":"X","name":"a","pid":"gpu 0","ts":1},{"ph":"X","name":"b","pid":"rank 0","ts":1})"));
  auto rows = t.rows("events");
  EXPECT_EQ(at(rows[0], "pid"), "0");
  EXPECT_LT(std::stoll(at(rows[1], "pid")), 0);
}

TEST(ImportEvent, ValuesThatDoNotFitStayInArgs) {
  Imported t(asArray(
      R"({"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1,"args":{"device":99999999999,"correlation":18446744073709551615,"stream":1.5,"grid":[-1,1,1],"context":"x"}})"));
  EXPECT_EQ(at(t.rows("events").at(0), "args"),
            R"({"device":99999999999,"correlation":18446744073709551615,"stream":1.5,"grid":[-1,1,1],"context":"x"})");
}

TEST(ImportEvent, ArgsThatAreNoObjectAndUnknownMembersAreKept) {
  Imported t(asArray(R"({"ph":"X","name":"k","ts":1,"dur":1,"args":[1,2],"tts":5,"id":"0x7","bind_id":12})"));
  auto row = t.rows("events").at(0);
  EXPECT_EQ(at(row, "args"), R"({"args":[1,2],"tts":5,"id":"0x7"})");
  EXPECT_EQ(at(row, "flow"), "12");
}

TEST(ImportEvent, MembersOfTheWrongKindAreKept) {
  Imported t(asArray(
      R"({"ph":"X","cat":{"a":1},"name":7,"pid":[1],"tid":{},"ts":1,"args":{"b":1},"args":2},{"ph":"s","cat":"a\u0062","name":"n","id":1,"ts":1,"args":{"x":NaN}})"));
  auto row = t.rows("events").at(0);
  EXPECT_EQ(at(row, "name"), "7");
  EXPECT_EQ(at(row, "type"), "other");
  EXPECT_EQ(at(row, "pid"), "NULL");
  EXPECT_EQ(at(row, "args"), R"({"args":2,"cat":{"a":1}})");
  EXPECT_EQ(at(t.rows("flows").at(0), "kind"), "ab");
  EXPECT_EQ(at(t.rows("flows").at(0), "args"), R"({"name":"n","x":null})");
}

TEST(ImportEvent, PrettyPrintedArgsAreCompacted) {
  Imported t(
      asArray("{\"ph\":\"X\",\"name\":\"k\",\"ts\":1,\"dur\":1,\"args\":{\n    \"a\": [\n      1,\n      2\n    ],\r\n "
              " \"b\": \"x\\n  y\"\n  }}"));
  EXPECT_EQ(at(t.rows("events").at(0), "args"), R"({"a": [1,2],"b": "x\n  y"})");
}

TEST(ImportEvent, NanIsNoJsonAndBecomesNull) {
  Imported t(asArray(
      R"({"ph":"X","name":"NaN, inf","ts":1,"dur":1,"args":{"a":NaN,"b":[-Infinity,"nan"],"c":inf,"d":-nan,"n":null}})"));
  ASSERT_TRUE(t.report) << t.error();
  EXPECT_EQ(at(t.rows("events").at(0), "args"), R"({"a":null,"b":[null,"nan"],"c":null,"d":null,"n":null})");
  EXPECT_EQ(t.lost("not a number"), 1u);
}

TEST(ImportEvent, BeginAndEndArePairedPerThread) {
  Imported t(asArray(R"({"ph":"B","cat":"cpu_op","name":"outer","pid":1,"tid":1,"ts":10,"args":{"a":1}},
                        {"ph":"B","name":"other","pid":1,"tid":2,"ts":11},
                        {"ph":"B","name":"inner","pid":1,"tid":1,"ts":12},
                        {"ph":"E","pid":1,"tid":1,"ts":15},
                        {"ph":"E","pid":1,"tid":1,"ts":20.5,"args":{"b":2}},
                        {"ph":"E","pid":1,"tid":1,"ts":21},
                        {"ph":"E","pid":9,"tid":1,"ts":21})"));
  auto rows = t.rows("events");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(at(only(rows, "name", "inner"), "dur"), "3000");
  auto outer = only(rows, "name", "outer");
  EXPECT_EQ(at(outer, "dur"), "10500");
  EXPECT_EQ(at(outer, "type"), "cpu_op");
  EXPECT_EQ(at(outer, "args"), R"({"a":1,"b":2})");
  EXPECT_EQ(at(only(rows, "name", "other"), "dur"), "NULL");
  EXPECT_EQ(t.lost("end without begin"), 2u);
  EXPECT_EQ(at(only(t.rows("losses"), "cause", "end without begin"), "count"), "2");
}

TEST(ImportEvent, AsyncSpansArePairedByCategoryAndId) {
  Imported t(asArray(R"({"ph":"b","cat":"io","id":"0x1","name":"read","pid":1,"tid":1,"ts":10},
                        {"ph":"b","cat":"net","id":"0x1","name":"send","pid":1,"tid":1,"ts":11},
                        {"ph":"n","cat":"io","id":"0x1","name":"half","pid":1,"tid":1,"ts":12},
                        {"ph":"e","cat":"io","id":"0x1","name":"read","pid":1,"tid":3,"ts":14,"args":{"n":1}},
                        {"ph":"b","cat":"io","id2":{"local":"0x9"},"name":"mine","pid":1,"ts":20},
                        {"ph":"e","cat":"io","id2":{"local":"0x9"},"name":"mine","pid":2,"ts":21})"));
  auto rows = t.rows("events");
  auto read = only(rows, "name", "read");
  EXPECT_EQ(at(read, "dur"), "4000");
  EXPECT_EQ(at(read, "type"), "other");
  EXPECT_EQ(at(read, "args"), R"({"cat":"io","id":"0x1","n":1})");
  EXPECT_EQ(at(only(rows, "name", "send"), "dur"), "NULL");
  EXPECT_EQ(at(only(rows, "name", "half"), "dur"), "NULL");
  EXPECT_EQ(at(only(rows, "name", "mine"), "dur"), "NULL");  // a local id of another process
  EXPECT_EQ(t.lost("end without begin"), 1u);
}

TEST(ImportEvent, InstantsAreMarkers) {
  for (const char* ph : {"i", "I", "R"}) {
    Imported t(asArray(std::string(R"({"ph":")") + ph +
                       R"(","name":"Iteration Start","s":"g","pid":"Traces","tid":"Trace","ts":5.5})"));
    auto row = t.rows("events").at(0);
    EXPECT_EQ(at(row, "type"), "marker");
    EXPECT_EQ(at(row, "ts"), "5500");
    EXPECT_EQ(at(row, "dur"), "NULL");
    EXPECT_EQ(at(row, "args"), R"({"s":"g"})");
  }
}

TEST(ImportEvent, CountersHaveOneRowASeries) {
  Imported t(asArray(R"({"ph":"C","name":"mem","pid":3,"ts":7,"args":{"used":1.5,"free":20,"what":"text"}},
                        {"ph":"C","name":"mem","id":2,"pid":3,"ts":8,"args":{"used":1e3}},{"ph":"C","name":"x","ts":8})"));
  auto rows = t.rows("counters");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0], (test::Row{{"ts", "7000"}, {"pid", "3"}, {"name", "mem"}, {"series", "used"}, {"value", "1.5"}}));
  EXPECT_EQ(at(rows[1], "value"), "20");
  EXPECT_EQ(at(rows[2], "name"), "mem[2]");
  EXPECT_EQ(t.lost("counter without value"), 2u);
}

TEST(ImportEvent, FlowsKeepTheirEnds) {
  Imported t(asArray(R"({"ph":"s","id":57,"pid":10,"tid":11,"ts":1.001,"cat":"ac2g","name":"ac2g"},
                        {"ph":"t","id":"0x1","pid":10,"tid":11,"ts":2,"cat":"c","name":"n"},
                        {"ph":"f","id":57,"pid":0,"tid":7,"ts":3,"cat":"ac2g","name":"ac2g","bp":"e"})"));
  auto rows = t.rows("flows");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(
      rows[0],
      (test::Row{{"ts", "1001"}, {"pid", "10"}, {"tid", "11"}, {"id", "57"}, {"kind", "ac2g"}, {"phase", "start"}}));
  EXPECT_EQ(at(rows[1], "phase"), "step");
  EXPECT_EQ(at(rows[1], "args"), R"({"id":"0x1","name":"n"})");
  EXPECT_EQ(at(rows[2], "phase"), "end");
  EXPECT_EQ(at(rows[2], "args"), R"({"bp":"e"})");
}

TEST(ImportEvent, WhatCannotBeKeptIsCounted) {
  Imported t(asArray(R"({"ph":"X","name":"a","dur":1}, 7, "text", [], null, {"ph":"Z","ts":1}, {"name":"b","ts":1}, {},
                        {"ph":"X","name":"c","ts":"soon"}, {"ph":"X","name":"d","ts":1e300},
                        {"ph":"X","name":"e","ts":1,"dur":-5}, {"ph":"X","name":"f","ts":1,"dur":"x"})"));
  ASSERT_TRUE(t.report) << t.error();
  EXPECT_EQ(t.lost("no ts"), 1u);
  EXPECT_EQ(t.lost("not an object"), 4u);
  EXPECT_EQ(t.lost("unknown phase"), 1u);
  EXPECT_EQ(t.lost("no phase"), 2u);
  EXPECT_EQ(t.lost("bad ts"), 2u);
  EXPECT_EQ(t.lost("bad duration"), 2u);
  EXPECT_EQ(t.rows("events").size(), 2u);
  EXPECT_EQ(at(only(t.rows("losses"), "cause", "unknown phase"), "detail"), R"({"ph":"Z","ts":1})");
}

TEST(ImportEvent, WorkOfAcceleratorsNobodyToldUsAbout) {
  auto typeOf = [](const char* category, const char* args) {
    Imported t(asArray(R"({"ph":"X","name":"n","cat":")" + std::string(category) +
                       R"(","pid":3,"tid":4,"ts":1,"dur":2,"args":)" + args + "}"));
    return at(t.rows("events").at(0), "type");
  };
  EXPECT_EQ(typeOf("mtia_ccp_events", R"({"device":3,"stream":4})"), "kernel");
  EXPECT_EQ(typeOf("npu_memcpy", R"({"stream":4})"), "memcpy");
  EXPECT_EQ(typeOf("npu_sync", R"({"stream":4})"), "sync");
  EXPECT_EQ(typeOf("mtia_runtime", R"({"device":3})"), "runtime");
  EXPECT_EQ(typeOf("privateuse1_driver", "{}"), "driver");
  for (const char* args : {"{}", R"({"device":"cpu"})", R"({"device":-1,"stream":-1})"})
    EXPECT_EQ(typeOf("mtia_ccp_events", args), "other") << args;
  EXPECT_EQ(typeOf("cuda_event", R"({"stream":4})"), "other");
  Imported t(asArray(
      R"({"ph":"X","name":"n","cat":"mtia_ccp_events","pid":9,"tid":9,"ts":1,"dur":2,"args":{"device":3,"stream":4}})"));
  auto row = t.rows("events").at(0);
  EXPECT_EQ(at(row, "device"), "3");
  EXPECT_EQ(at(row, "stream"), "4");
  EXPECT_EQ(at(row, "args"), R"({"cat":"mtia_ccp_events"})");
}

TEST(ImportEvent, RulesOfAFileSayWhatACategoryIs) {
  auto rules = std::make_shared<model::CommRules>();
  test::TempDir dir;
  test::writeFile(dir / "rules", "category:npu_* kernel\nmy_exchange* mine all_gather\nhost:ring:* ring\n");
  ASSERT_TRUE(rules->addFile(dir / "rules"));
  ImportOptions options;
  options.type_of = [rules](std::string_view category) { return rules->typeOf(category); };
  options.collective_of = model::collectivesBy(rules);
  Imported t(asArray(R"({"ph":"X","name":"my_exchange_1","cat":"npu_op","pid":3,"tid":4,"ts":1,"dur":2},
                        {"ph":"X","name":"ring:all_reduce","cat":"cpu_op","pid":3,"tid":4,"ts":3,"dur":2})"),
             options);
  auto rows = t.rows("collectives");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(at(rows[0], "op"), "all_gather");
  EXPECT_EQ(at(rows[0], "device"), "3");
  EXPECT_EQ(at(rows[1], "op"), "all_reduce");
  test::writeFile(dir / "bad", "category:npu_* gpu\n");
  const Status bad = rules->addFile(dir / "bad");
  EXPECT_NE(bad.message().find("line 1 is not a rule: write category:PATTERN TYPE"), std::string::npos)
      << bad.message();
}

TEST(ImportEvent, RankFromTheFileNameWhereNothingElseSaysIt) {
  auto rankOf = [](const char* file, const char* text) {
    test::TempDir dir;
    test::writeFile(dir / file, text);
    ImportOptions options;
    options.paths = {dir / file};
    auto writer = Writer::create(dir / "out.sbt", {});
    auto report = importTraces(options, **writer);
    EXPECT_TRUE((*writer)->close());
    if (!report || report->ranks.size() != 1) return std::string("none");
    return std::to_string(*report->ranks.begin()) + (report->warnings.empty() ? "" : " by name");
  };
  const char* plain = R"([{"ph":"X","name":"n","pid":3,"tid":4,"ts":1,"dur":2}])";
  EXPECT_EQ(rankOf("step5_rank-3.json", plain), "3 by name");
  EXPECT_EQ(rankOf("rank12.json", plain), "12 by name");
  EXPECT_EQ(rankOf("rank1_of_rank4.json", plain), "none");
  EXPECT_EQ(rankOf("franks.json", plain), "none");
  EXPECT_EQ(rankOf("rank1.json", R"({"distributedInfo":{"rank":2},"traceEvents":[]})"), "2");
}

}  // namespace
}  // namespace tracesmith::trace
