// One operation has one bandwidth, whoever is asked: the C++ API in the job, the analysis, SQL, the page.
#include <simdjson.h>

#include <sstream>

#include "server/server_fixture.hpp"
#include "support/table.hpp"
#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::server {
namespace {

struct Speed {
  double algorithm = 0, bus = 0;
};

class Bandwidth : public ServerFixture {
 protected:
  static constexpr int kRanks = 4;

  /// The program does an all_to_all and asks the C++ API about it; `run` records the same.
  void runProgram() {
    const std::string build = TRACESMITH_BUILD_DIR;
    const Output out = test::runWith(
        {{"TRACESMITH_DIR", dir_ / "rings"},
         {"TRACESMITH_CUPTI", build + "/lib/tests/libcupti.so.13"},
         {"LD_LIBRARY_PATH", build + "/lib/tests/driver"},
         {"ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0"}},  // the probe is loaded before the sanitizer
        {TRACESMITH_BIN, "run", "-o", dir_ / "recorded.sbt", "--", build + "/bin/tests/profiler_program"});
    ASSERT_EQ(out.rc, 0) << out.err;
    std::istringstream lines(out.out);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("nccl|AllToAll|"))
        std::sscanf(line.substr(line.find("|speed ")).c_str(), "|speed %lf %lf", &api_.algorithm, &api_.bus);
    for (const test::Row& row : test::rows(dir_ / "recorded.sbt", "collectives", "op", "all_to_all")) {
      bytes_ = row.i("bytes");
      ns_ = row.i("dur");
    }
  }
  /// The same operation on all its ranks, which come at once.
  void writeAllRanks(const std::string& path) const {
    auto writer = std::move(*trace::Writer::create(path));
    auto out = writer->appender();
    for (int i = 0; i < 4; ++i)
      for (int r = 0; r < kRanks; ++r) {
        trace::CollectiveRow c;
        c.ts = 1'000'000 + i * 100'000;
        c.dur = ns_;
        c.op = writer->string("all_to_all");
        c.comm = writer->string("world");
        c.name = writer->string("ncclDevKernel_SendRecv(x)");
        c.node = writer->string("n0");
        c.seq = i;
        c.rank = c.group_rank = c.device = r;
        c.group_size = kRanks;
        c.bytes = bytes_;
        ASSERT_TRUE(out->append(c));
      }
    ASSERT_TRUE(out->flush());
    out.reset();
    ASSERT_TRUE(writer->close());
  }
  Speed asked(const std::string& json, const char* key) {
    simdjson::dom::element e;
    EXPECT_EQ(parser_.parse(json).get(e), simdjson::SUCCESS) << json;
    e = e[key].value();
    return {e["algbw_gbps"].get_double().value(), e["busbw_gbps"].get_double().value()};
  }
  void expectSame(const Speed& s, const char* who) const {
    EXPECT_NEAR(s.algorithm, api_.algorithm, 1e-6 * api_.algorithm) << who;
    EXPECT_NEAR(s.bus, api_.bus, 1e-6 * api_.bus) << who;
  }

  Speed api_;
  int64_t bytes_ = 0, ns_ = 0;
  simdjson::dom::parser parser_;
};

TEST_F(Bandwidth, OfAnAllToAllIsTheSameEverywhere) {
  runProgram();
  ASSERT_GT(ns_, 0);
  // A quarter of it for each rank, three of them over links.
  EXPECT_NEAR(api_.algorithm, static_cast<double>(bytes_) / static_cast<double>(ns_), 1e-6 * api_.algorithm);
  EXPECT_NEAR(api_.bus, api_.algorithm * 3 / 4, 1e-6 * api_.bus);

  const std::string path = dir_ / "all.sbt";
  writeAllRanks(path);
  auto reader = trace::Reader::open(path);
  ASSERT_TRUE(reader.ok());
  auto a = analysis::analyze(**reader);
  ASSERT_TRUE(a.ok());
  ASSERT_EQ(a->collectives.size(), 4u);
  expectSame({a->collectives[0].algbw_gbps, a->collectives[0].busbw_gbps}, "analyze");

  serveFile(path);
  if (TRACESMITH_HAS_QUERY) {
    const Reply r = ask(http_, "POST", "/api/v1/query",
                        "{\"sql\":\"SELECT algbw_gbps(op, bytes, group_size, dur), busbw_gbps(op, bytes, group_size, "
                        "dur) FROM collectives LIMIT 1\",\"format\":\"csv\"}");
    Speed sql;
    ASSERT_EQ(std::sscanf(r.body.substr(r.body.find('\n') + 1).c_str(), "%lf,%lf", &sql.algorithm, &sql.bus), 2)
        << r.body;
    expectSame(sql, "SQL");
  }
  const Reply hits = get(http_, trace("/search?q=all_to_all&limit=1"));
  const size_t at = hits.body.find("\"row_id\":\"") + 10;
  const std::string row = hits.body.substr(at, hits.body.find('"', at) - at);
  expectSame(asked(get(http_, trace("/events/" + row)).body, "collective"), "page");
}

}  // namespace
}  // namespace tracesmith::server
