// JSON of every form, cut by the window at every byte; gzip; input that is broken.
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "support/imported.hpp"

namespace tracesmith::trace {
namespace {

using test::asArray;
using test::asObject;
using test::at;
using test::Imported;

std::string gzip(const std::string& bytes) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, bytes.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

// Everything that could confuse a scanner for brackets and quotes.
constexpr const char* kNasty =
    R"({"ph":"X","name":"a{b}[c]\"d\\","cat":"cpu_op","pid":1,"tid":2,"ts":1.5,"dur":2,"args":{"s":"}]\\\"{","u":"\u00e9\ud83d\ude00","deep":[[[{"x":[]}]]],"t":true,"f":false,"n":null,"e":1e-7}},
       {"ph":"X","name":"é😀\u00e9\ud83d\ude00\ud800/\/\b\f\n\r\t","pid":-3,"tid":0,"ts":2,"dur":0.001,"args":{}},
       {"ph":"i","name":"","ts":3,"s":"t"},{"ph":"C","name":"c","ts":4,"args":{"v":-0.5}},
       {"ph":"s","id":1,"cat":"c","name":"c","ts":5},{"ph":"B","name":"b","ts":6},{"ph":"E","ts":7},
       {"ph":"M","name":"process_name","pid":1,"args":{"name":"py \"x\""}})";
constexpr const char* kMore =
    R"("displayTimeUnit":"ms","x":{"y":[1,2,{"z":"]"}]},"distributedInfo":{"rank":5,"world_size":8},"baseTimeNanoseconds":1711964646000000000)";

std::vector<std::vector<test::Row>> everything(const Imported& t) {
  std::vector<std::vector<test::Row>> all;
  for (const TableInfo& table : tables())
    if (std::string(table.name) != "sessions") all.push_back(t.rows(table.name));
  return all;
}

TEST(ImportStream, WindowsMayCutAnywhere) {
  for (const std::string& text :
       {asArray(kNasty), asObject(kNasty, kMore),
        " \n{" + std::string(kMore) + " , \"traceEvents\" : [\n" + kNasty + " \n] \r\n } \n\t"}) {
    Imported whole(text);
    ASSERT_TRUE(whole.report) << whole.error();
    EXPECT_EQ(whole.report->losses.total(), 0u);
    auto expected = everything(whole);
    for (size_t window : {1u, 2u, 3u, 5u, 7u, 13u, 64u, 255u, 256u}) {
      ImportOptions options;
      options.window_bytes = window;
      options.threads = window % 2;
      Imported cut(text, options);
      ASSERT_TRUE(cut.report) << window << ": " << cut.error();
      EXPECT_EQ(everything(cut), expected) << "window of " << window;
    }
    // One byte more or less before the events moves every cut.
    for (size_t shift = 1; shift < 60; ++shift) {
      ImportOptions options;
      options.window_bytes = 60;
      options.threads = false;
      Imported cut(std::string(shift, ' ') + text, options);
      ASSERT_TRUE(cut.report) << shift << ": " << cut.error();
      EXPECT_EQ(everything(cut), expected) << "shift of " << shift;
    }
  }
}

TEST(ImportStream, EscapesAndUnicodeInNames) {
  Imported t(asArray(kNasty));
  auto rows = t.rows("events");
  EXPECT_EQ(at(rows.at(0), "name"), "a{b}[c]\"d\\");
  EXPECT_EQ(at(rows.at(1), "name"), "é😀é😀\xef\xbf\xbd//\b\f\n\r\t");
  EXPECT_EQ(at(rows.at(0), "args"),
            R"({"s":"}]\\\"{","u":"\u00e9\ud83d\ude00","deep":[[[{"x":[]}]]],"t":true,"f":false,"n":null,"e":1e-7})");
}

TEST(ImportStream, BytesThatAreNoUtf8AreReplacedAndCounted) {
  ImportOptions options;
  for (size_t window : {2u, 1000u}) {
    options.window_bytes = window;
    Imported t(
        asArray(
            "{\"ph\":\"X\",\"name\":\"a\xff\xc3(\xe2\x82\xed\xa0\x80\xc3\xa9\",\"ts\":1,\"args\":{\"k\":\"\x80\"}}"),
        options);
    ASSERT_TRUE(t.report) << t.error();
    EXPECT_EQ(at(t.rows("events").at(0), "name"),
              "a?"
              "?(?????é");
    EXPECT_EQ(at(t.rows("events").at(0), "args"), R"({"k":"?"})");
    EXPECT_EQ(t.lost("not UTF-8"), 8u);
  }
}

TEST(ImportStream, GzipOfOneOrSeveralMembers) {
  std::string text = asObject(kNasty, kMore);
  auto expected = everything(Imported(text));
  std::string members;
  for (size_t i = 0; i < text.size(); i += 100) members += gzip(text.substr(i, 100));
  for (const std::string& bytes :
       {gzip(text), members, gzip("") + gzip(text) + gzip(""), gzip(text) + std::string(512, '\0')})
    for (bool threads : {true, false}) {
      ImportOptions options;
      options.threads = threads;
      Imported t(bytes, options);
      ASSERT_TRUE(t.report) << t.error();
      EXPECT_EQ(everything(t), expected);
      EXPECT_EQ(t.report->json_bytes, text.size());
    }
}

TEST(ImportStream, BrokenGzipSaysWhere) {
  std::string bytes = gzip(asObject(kNasty, kMore));
  for (size_t cut : {bytes.size() - 1, bytes.size() / 2, size_t(12)}) {
    std::string error = Imported(bytes.substr(0, cut)).error();
    EXPECT_NE(error.find("truncated gzip: it ends at byte " + std::to_string(cut)), std::string::npos) << error;
  }
  std::string flipped = bytes;
  flipped[bytes.size() / 2] ^= 0x55;
  EXPECT_NE(Imported(flipped).error().find("gzip at byte "), std::string::npos) << Imported(flipped).error();
  std::string followed = bytes + "rubbish";
  EXPECT_NE(Imported(followed).error().find("corrupt gzip at byte " + std::to_string(bytes.size())), std::string::npos);
  EXPECT_NE(Imported(gzip("")).error().find("is empty"), std::string::npos);
}

TEST(ImportStream, TruncatedJsonIsAnErrorAtEveryByte) {
  std::string text = asObject(kNasty, R"("distributedInfo":{"rank":5})");
  for (size_t cut = 1; cut < text.size(); ++cut) {
    ImportOptions options;
    options.threads = false;
    Imported t(text.substr(0, cut), options);
    ASSERT_FALSE(t.report) << cut;
    std::string expected = "malformed JSON at byte " + std::to_string(cut) + ": the file ends here";
    if (cut > 1) {
      EXPECT_NE(t.error().find(expected), std::string::npos) << cut << " " << t.error();
    }
    EXPECT_FALSE(test::exists(t.dir / "out.sbt"));
  }
}

TEST(ImportStream, MalformedJsonSaysWhereAndWhy) {
  const std::tuple<const char*, int, const char*> cases[] = {
      {R"([{"ph":"X" "ts":1}])", 11, "expected ',' or '}'"},
      {R"([{"ph":"X",}])", 11, "expected a key"},
      {R"([{"ph":X}])", 7, "expected a value"},
      {R"([{"ph":"X"} {"ph":"X"}])", 12, "expected ',' or ']'"},
      {R"([{"ph":"\x"}])", 9, "bad escape"},
      {R"([{"ph":"\u12g4"}])", 12, "bad \\u escape"},
      {R"([{"a":tru}])", 9, "expected a value"},
      {R"([{"a":01}])", 7, "expected ',' or '}'"},
      {R"([{"a":1.}])", 8, "bad number"},
      {R"([{"a":-}])", 7, "bad number"},
      {R"([{"a":1e}])", 8, "bad number"},
      {R"([{"a":[1 2]}])", 9, "expected ',' or ']'"},
      {R"([{"a":{"b" 2}}])", 11, "expected ':'"},
      {R"([{"a":{1:2}}])", 7, "expected a key"},
      {R"([{"a":[1}]}])", 8, "expected ',' or ']'"},
      {R"([{"ph":"X"},])", 12, "expected a value"},
      {"[{\"a\":\"\n\"}]", 7, "control character"},
      {R"([] x)", 3, "something follows"},
      {R"({"traceEvents":[],})", 18, "expected a key"},
      {R"({"traceEvents":5})", 15, "traceEvents is not an array"},
      {R"({"traceEvents":[]]})", 17, "expected ',' or '}'"},
      {R"({traceEvents:[]})", 1, "expected a key"}};
  for (auto [text, where, why] : cases)
    for (size_t window : {1u, 1000u}) {
      ImportOptions options;
      options.window_bytes = window;
      Imported t(text, options);
      ASSERT_FALSE(t.report) << text;
      EXPECT_NE(t.error().find("malformed JSON at byte " + std::to_string(where) + ": " + why), std::string::npos)
          << text << "\n"
          << t.error();
    }
}

TEST(ImportStream, WhatIsNoTraceIsSaidSo) {
  EXPECT_NE(Imported("").error().find("is empty"), std::string::npos);
  EXPECT_NE(Imported(" \n\t ").error().find("is empty"), std::string::npos);
  EXPECT_NE(Imported("hello").error().find("is not a trace"), std::string::npos);
  EXPECT_NE(Imported(std::string(100, '\0')).error().find("is not a trace"), std::string::npos);
  EXPECT_NE(Imported("42").error().find("is not a trace"), std::string::npos);
  EXPECT_NE(Imported("{}").error().find("no traceEvents"), std::string::npos);
  EXPECT_NE(Imported(R"({"a":[1]})").error().find("no traceEvents"), std::string::npos);
}

TEST(ImportStream, EmptyTracesAreTraces) {
  for (const char* text : {"[]", "[ ]", R"({"traceEvents":[]})", "\xef\xbb\xbf[]"}) {
    Imported t(text);
    ASSERT_TRUE(t.report) << t.error();
    EXPECT_EQ(t.rows("events").size(), 0u);
    EXPECT_EQ(t.rows("sessions").size(), 1u);
  }
}

TEST(ImportStream, TheArrayFormMayLackItsEnd) {
  for (const char* end : {"", ",", ",\n", "\n"}) {
    Imported t("[" + std::string(kNasty) + end);
    ASSERT_TRUE(t.report) << t.error();
    EXPECT_EQ(t.lost("array not closed"), 1u);
    EXPECT_EQ(t.rows("events").size(), 4u);
  }
}

TEST(ImportStream, NestingIsLimited) {
  auto nested = [](int depth) {
    return asArray(R"({"ph":"X","name":"n","ts":1,"args":{"a":)" + std::string(static_cast<size_t>(depth), '[') +
                   std::string(static_cast<size_t>(depth), ']') + "}}");
  };
  EXPECT_TRUE(Imported(nested(1000)).report);
  EXPECT_NE(Imported(nested(2000)).error().find("nested too deeply"), std::string::npos);
  EXPECT_NE(Imported(std::string(10'000'000, '[')).error().find("nested too deeply"), std::string::npos);
  EXPECT_NE(Imported("{\"a\":" + std::string(1'000'000, '{')).error().find("malformed JSON"), std::string::npos);
}

TEST(ImportStream, AnEventTooLargeIsPassedOver) {
  std::string huge =
      R"({"ph":"X","name":"huge","ts":1,"args":{"a":")" + std::string(20'000'000, 'x') + R"(\"}","b":[1,2]}})";
  std::string small = R"({"ph":"X","name":"small","ts":1})";
  for (const std::string& text :
       {asArray(small + "," + huge + "," + small), asObject(huge + "," + small, "\"big\":" + huge + ",\"after\":1")}) {
    Imported t(text);
    ASSERT_TRUE(t.report) << t.error();
    EXPECT_GE(t.lost("too large"), 1u);
    for (const auto& row : t.rows("events")) EXPECT_EQ(at(row, "name"), "small");
    EXPECT_GE(t.rows("events").size(), 1u);
  }
  EXPECT_NE(Imported(asArray(huge).substr(0, 15'000'000)).error().find("malformed JSON at byte 15000000"),
            std::string::npos);
}

TEST(ImportStream, BlocksThatWaitMayWaitOnDisk) {
  std::string events;
  for (int i = 0; i < 100'000; ++i) {
    events += i ? "," : "";
    events += R"({"ph":"X","cat":")" + std::string(i % 2 ? "kernel" : "cuda_runtime") + R"(","name":"n)" +
              std::to_string(i % 1000) + R"(","pid":7,"tid":1,"ts":)" + std::to_string(i) +
              R"(.125,"dur":1,"args":{"correlation":)" + std::to_string(i / 2) + R"(,"q":)" + std::to_string(i) + "}}";
  }
  for (size_t waiting : {0u, 500'000u}) {
    ImportOptions options;
    options.waiting_bytes = waiting;
    Imported t(asObject(events, R"("distributedInfo":{"rank":3})"), options);
    ASSERT_TRUE(t.report) << t.error();
    auto rows = t.rows("events");
    ASSERT_EQ(rows.size(), 100'000u);
    int64_t sum = 0;
    for (auto& row : rows) {
      EXPECT_EQ(at(row, "rank"), "3");
      EXPECT_EQ(at(row, "pid"), "7");
      sum += std::stoll(at(row, "ts")) / 1000;
    }
    EXPECT_EQ(sum, 100'000ll * 99'999 / 2);
    size_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(t.dir.path())) ++files;
    EXPECT_EQ(files, 2u);  // input and output: nothing else was left behind
  }
}

}  // namespace
}  // namespace tracesmith::trace
