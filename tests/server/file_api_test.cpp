// The page and API of one recorded trace.
#include <simdjson.h>

#include "server/server_fixture.hpp"

namespace tracesmith::server {
namespace {

class FileApi : public ServerFixture {
 protected:
  std::string job() {
    const std::string path = dir_ / "job.sbt";
    test::SmallJob small;
    small.slow = {{3, 1.5}};
    small.more = [](test::JobWriter& w) {
      for (int i = 0; i < 10; ++i) w.metric(0, 1, "gpu_power_watts", 1'000'000'000 + i * 1'000'000, 300 + i);
    };
    test::writeSmallJob(path, small);
    return path;
  }
};

TEST_F(FileApi, ATraceHasATimelineAndSoOn) {
  serveFile(job());
  EXPECT_TRUE(get(http_, "/api/v1/info").has("\"mode\":\"file\",\"title\":\"job.sbt\""));
  EXPECT_TRUE(get(http_, "/api/v1/traces").has("\"id\":\"file\""));
  EXPECT_TRUE(get(http_, trace("/timeline")).has("\"kind\":\"collectives\""));
  EXPECT_TRUE(get(http_, trace("/tiles?width=100&tracks=0,1")).has("\"detail\":\"slices\""));
  EXPECT_TRUE(get(http_, trace("/stats?tracks=0")).has("\"by_name\""));
  EXPECT_TRUE(get(http_, trace("/search?q=nccl&limit=1")).has("\"row_id\":\"e"));
  ASSERT_TRUE(eventually([&] { return get(http_, trace("/analysis")).status == 200; }));
  EXPECT_TRUE(get(http_, trace("/analysis")).has("\"blame\""));
  EXPECT_TRUE(get(http_, "/api/v1/metrics/names").has("gpu_power_watts"));
  const Reply series = get(http_, "/api/v1/metrics/series?metric=gpu_power_watts");
  EXPECT_TRUE(series.has("\"index\":1") && series.has("309")) << series.body;
  EXPECT_EQ(get(http_, "/api/v1/topology").status, 200);
  EXPECT_EQ(get(http_, "/api/v1/devices").status, 200);
  EXPECT_TRUE(get(http_, "/api/v1/hang").has("\"state\":\"unknown\""));
  EXPECT_EQ(ask(http_, "POST", "/api/v1/sessions", "{}").status, 404);  // there is no cluster
  EXPECT_EQ(get(http_, "/status").status, 404);
  const Reply perfetto = get(http_, trace("/export?format=perfetto"));
  EXPECT_TRUE(perfetto.status == 200 && perfetto.header("Content-Disposition: attachment; filename=\"job.pftrace\""));
  EXPECT_GT(perfetto.body.size(), 1000u);
  EXPECT_TRUE(get(http_, trace("/export?format=chrome")).has("\"traceEvents\""));
}

/// Half of a job whose nodes' clocks are seconds apart: all nodes have their half in it.
TEST_F(FileApi, AWindowIsExportedFromSeveralClocks) {
  const std::string path = dir_ / "clocks.sbt";
  test::SmallJob small;
  small.clock_ns = {{1, 7'000'000'000}};
  test::writeSmallJob(path, small);
  serveFile(path);
  const Reply timeline = get(http_, trace("/timeline"));
  const std::string key = "\"duration_ns\":";
  const int64_t duration = std::atoll(timeline.body.c_str() + timeline.body.find(key) + key.size());
  ASSERT_LT(duration, 7'000'000'000);
  auto events = [&](const std::string& window) {
    const Reply r = get(http_, trace("/export?format=chrome" + window));
    EXPECT_EQ(r.status, 200) << r.body.substr(0, 200);
    simdjson::dom::parser parser;
    simdjson::dom::element document;
    EXPECT_EQ(parser.parse(r.body).get(document), simdjson::SUCCESS);
    std::map<int64_t, int64_t> count;  // kernels by process
    for (simdjson::dom::element e : document["traceEvents"].get_array()) {
      std::string_view category;
      int64_t pid;
      if (e["cat"].get(category) == simdjson::SUCCESS && category == "kernel" && e["pid"].get(pid) == simdjson::SUCCESS)
        ++count[pid];
    }
    return count;
  };
  const std::map<int64_t, int64_t> whole = events(""), half = events("&from=0&to=" + std::to_string(duration / 2));
  ASSERT_EQ(half.size(), whole.size());
  for (const auto& [pid, count] : half) {
    EXPECT_GT(count, whole.at(pid) / 3) << pid;
    EXPECT_LT(count, whole.at(pid) * 2 / 3) << pid;
  }
  EXPECT_EQ(get(http_, trace("/export?format=perfetto&from=0&to=1000000")).status, 200);
}

TEST_F(FileApi, TheTopologyIsAPicture) {
  const std::string path = dir_ / "job.sbt";
  ASSERT_EQ(test::tracesmith({"synth", "-o", path, "--events", "5000", "--ranks", "8", "--gpus-per-node", "4"}).rc, 0);
  serveFile(path);
  Reply r = get(http_, "/api/v1/topology");
  EXPECT_TRUE(r.has("\"kind\":\"NVLink4\",\"count\":18,\"bandwidth_gbps\":450")) << r.body;
  EXPECT_TRUE(r.has("\"nics\":[]") && r.has("\"simulated\":true")) << r.body;
  r = get(http_, "/api/v1/topology.svg");
  EXPECT_TRUE(r.status == 200 && r.header("Content-Type: image/svg+xml")) << r.head;
  EXPECT_TRUE(r.has("2 nodes, 8 GPUs") && r.has("node0 and 1 like it")) << r.body;
  EXPECT_TRUE(r.has("NVLink4 × 18, 450 GB/s: 6 pairs")) << r.body;
  EXPECT_TRUE(r.has("no network cards reported") && r.has("simulated data")) << r.body;
}

TEST_F(FileApi, WhatIsAskedWronglyIsSaid) {
  serveFile(job());
  for (const char* path :
       {"/tiles?width=0&tracks=0", "/tiles?width=5000&tracks=0", "/tiles?width=10", "/tiles?width=10&tracks=0,0",
        "/tiles?width=10&tracks=99999", "/tiles?width=10&tracks=-1", "/tiles?from=5&to=5&width=10&tracks=0",
        "/tiles?from=1e3&width=10&tracks=0", "/tiles?from=99999999999999999999&width=10&tracks=0", "/search",
        "/search?q=x&limit=0", "/export", "/export?format=exe", "/stats?tracks=x"}) {
    const Reply r = get(http_, trace(path));
    EXPECT_EQ(r.status, 400) << path;
    EXPECT_TRUE(r.body.starts_with(error("bad_request"))) << path << " " << r.body;
  }
  EXPECT_EQ(get(http_, trace("/events/e0.999999999")).status, 404);
  EXPECT_EQ(get(http_, "/api/v1/traces/other/timeline").status, 404);
  const test::Output o = test::tracesmith({"view", dir_ / "nothing.sbt", "--web", "--port", "0"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "nothing.sbt")) << o.err;
}

#if TRACESMITH_HAS_QUERY
TEST_F(FileApi, SqlIsReadOnlyAndLimited) {
  serveFile(job());
  auto query = [&](const std::string& body) { return ask(http_, "POST", "/api/v1/query", body); };
  Reply r = query("{\"sql\":\"SELECT 1 AS a, 'x' AS b, 9007199254740993 AS c, NULL AS d\"}");
  EXPECT_TRUE(r.has("\"columns\":[{\"name\":\"a\",\"type\":\"INTEGER\"}")) << r.body;
  EXPECT_TRUE(r.has("\"rows\":[[1,\"x\",\"9007199254740993\",null]]")) << r.body;
  r = query("{\"sql\":\"SELECT * FROM events\",\"max_rows\":10}");
  EXPECT_TRUE(r.has("\"row_count\":10,\"truncated\":true")) << r.body.substr(0, 300);
  r = query("{\"sql\":\"SELECT count(*) AS n FROM steps\",\"format\":\"csv\"}");
  EXPECT_EQ(r.body, "n\n160\n");
  r = query("{\"sql\":\"SELECT 1 AS a\",\"format\":\"arrow\"}");  // read by Apache's library in tests/web
  EXPECT_TRUE(r.header("Content-Type: application/vnd.apache.arrow.stream")) << r.head;
  EXPECT_TRUE(r.body.starts_with("\xff\xff\xff\xff") && r.body.ends_with(std::string("\xff\xff\xff\xff\0\0\0\0", 8)));
  r = query("{\"sql\":\"SELECT * FROM range(300000)\",\"max_rows\":1000000}");  // larger than what is held back
  EXPECT_TRUE(r.status == 200 && r.has("\"row_count\":300000,\"truncated\":false"));
  for (const char* sql : {"SELEC", "SELECT * FROM nothing", "DROP TABLE events", "COPY events TO 'x'",
                          "SELECT 1; SELECT 2", "SELECT * FROM read_text('/etc/passwd')", "SET threads = 1", ""}) {
    r = query(std::string("{\"sql\":\"") + sql + "\"}");
    EXPECT_EQ(r.status, 400) << sql;
    EXPECT_TRUE(r.body.starts_with(error("bad_request"))) << r.body;
    EXPECT_FALSE(r.has("root:"));
  }
  r = query(
      "{\"sql\":\"SELECT sum(a.range * b.range) FROM range(100000000) a, range(100000000) b\",\"timeout_s\":0.2}");
  EXPECT_EQ(r.status, 504);
  EXPECT_TRUE(r.body.starts_with(error("timeout"))) << r.body;
  EXPECT_EQ(query("{\"sql\":\"SELECT 1\",\"max_rows\":0}").status, 400);
  EXPECT_EQ(query("{\"sql\":\"SELECT 1\",\"format\":\"exe\"}").status, 400);
}
#endif

TEST_F(FileApi, ABrowserGetsThePageAProgramTheList) {
  serveFile(job());
  EXPECT_TRUE(get(http_, "/").has("\"GET /api/v1/info\""));
  const Reply page = get(http_, "/", "Accept: text/html\r\n");
  EXPECT_EQ(page.status, 200);
  if (page.has("<html")) {  // built with npm
    EXPECT_NE(page.head.find("Content-Security-Policy: default-src 'none'"), std::string::npos) << page.head;
    EXPECT_TRUE(page.header("X-Frame-Options: DENY"));
    EXPECT_TRUE(get(http_, "/", "Accept: text/html\r\nAccept-Encoding: gzip\r\n").header("Content-Encoding: gzip"));
  } else {
    EXPECT_TRUE(page.has("The page was not built into this program: ")) << page.body;
  }
  // What is not there is said to people in words, to programs as an error.
  const Reply nothing = get(http_, "/timline", "Accept: text/html\r\n");
  EXPECT_EQ(nothing.status, 404);
  EXPECT_TRUE(nothing.has("<a href=\"/\">Open TraceSmith</a>")) << nothing.body;
  EXPECT_TRUE(get(http_, "/timline").has("\"error\""));
}

/// The document is made from the table of routes: what it lists is there, and answers.
TEST_F(FileApi, TheOpenApiDocumentIsWhatIsServed) {
  serveFile(job());
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  const Reply r = get(http_, "/api/v1/openapi.json");
  ASSERT_EQ(parser.parse(r.body).get(document), simdjson::SUCCESS);
  EXPECT_EQ(document["openapi"].get_string().value(), "3.0.3");
  size_t operations = 0;
  for (const auto& [path, methods] : document["paths"].get_object())
    for (const auto& [method, operation] : methods.get_object()) {
      ++operations;
      EXPECT_FALSE(operation["summary"].get_string().value().empty());
      if (path == "/api/v1/events") continue;  // does not end
      std::string there(path);
      for (size_t at = there.find('{'); at != std::string::npos; at = there.find('{'))
        there.replace(at, there.find('}') - at + 1, there.substr(at, 4) == "{id}" ? "file" : "x");
      const std::string verb = method == "post" ? "POST" : method == "delete" ? "DELETE" : "GET";
      const Reply answer = ask(http_, verb, there);
      EXPECT_TRUE(answer.status != 0 && answer.status != 405 && answer.status < 500) << verb << " " << there;
      // The other method is refused, unless it has its own operation.
      const std::string other = verb == "GET" ? "POST" : "GET";
      if (methods[other == "POST" ? "post" : "get"].error()) {
        EXPECT_EQ(ask(http_, other, there).status, 405) << other << " " << there;
      }
    }
  simdjson::dom::array endpoints;
  const Reply root = get(http_, "/");
  ASSERT_EQ(parser.parse(root.body)["endpoints"].get(endpoints), simdjson::SUCCESS) << root.body;
  EXPECT_EQ(operations, endpoints.size());
}

}  // namespace
}  // namespace tracesmith::server
