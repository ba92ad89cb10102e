// Queries of clients run in processes of their own: whatever one does, the server goes on and nothing stays behind.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "query/worker.hpp"
#include "server/server_fixture.hpp"

namespace tracesmith::server {
namespace {

namespace fs = std::filesystem;

/// DuckDB does not look for an interrupt before this has ended, and it takes hours.
constexpr const char* kEndless = "SELECT levenshtein(repeat('a', 3000000), repeat('b', 3000000))";

class QueryProcessTest : public ServerFixture {
 protected:
  void SetUp() override {
    if (!TRACESMITH_HAS_QUERY) GTEST_SKIP() << "built without SQL";
    ServerFixture::SetUp();
    fs::create_directory(spill_);
    ::setenv("TMPDIR", spill_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("TMPDIR");
    ServerFixture::TearDown();
  }
  std::string job() {
    const std::string path = dir_ / "job.sbt";
    test::writeSmallJob(path, {});
    return path;
  }
  Reply query(const std::string& sql, const std::string& more = "") {
    return ask(http_, "POST", "/api/v1/query", "{\"sql\":\"" + sql + "\"" + more + "}");
  }
  /// Asks, and does not wait for the answer.
  std::unique_ptr<RawConnection> begin(const std::string& body) {
    auto c = std::make_unique<RawConnection>(http_);
    EXPECT_TRUE(c->send("POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                        std::to_string(body.size()) + "\r\n\r\n" + body));
    return c;
  }
  /// Processes that `parent` started and did not wait for, zombies too.
  static std::vector<pid_t> children(pid_t parent) {
    std::vector<pid_t> out;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::istringstream stat(test::readFile("/proc/" + name + "/stat"));
      std::string word;
      pid_t of = 0;
      if (stat >> word >> word >> word >> of && of == parent) out.push_back(std::atoi(name.c_str()));
    }
    return out;
  }
  std::vector<std::string> spillFolders() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(spill_))
      if (entry.path().filename().string().starts_with("tracesmith-query-")) out.push_back(entry.path());
    return out;
  }
  bool waitForWorker(const test::Child& server) {
    return eventually([&] { return children(server.pid()).size() == 1 && spillFolders().size() == 1; });
  }
  bool nothingLeft(const test::Child& server) {
    return eventually([&] { return children(server.pid()).empty() && spillFolders().empty(); });
  }
  const std::string spill_ = dir_ / "spill";
};

TEST_F(QueryProcessTest, AStatementReachesNothingButTheTrace) {
  serveFile(job());
  for (const char* sql : {"SELECT * FROM enable_logging('QueryLog')",
                          "SELECT * FROM read_csv('/etc/passwd')",
                          "SELECT * FROM read_text('/etc/passwd')",
                          "SELECT * FROM '/etc/passwd'",
                          "SELECT * FROM '/etc/passwd.csv'",
                          "SELECT * FROM glob('/etc/*')",
                          "SELECT * FROM sniff_csv('/etc/passwd')",
                          "SELECT * FROM query('SELECT 1')",
                          "SELECT * FROM arrow_scan(1::UBIGINT, 2::UBIGINT, 3::UBIGINT)",
                          "SELECT (SELECT count(*) FROM glob('/*'))",
                          "SELECT * FROM json_execute_serialized_sql('{}')",
                          "SELECT write_log('x')",
                          "SELECT getenv('HOME')",
                          "SELECT getvariable('x')",
                          "COPY events TO '/tmp/x.csv'",
                          "ATTACH '/tmp/x.db'",
                          "INSTALL httpfs",
                          "LOAD httpfs",
                          "PRAGMA enable_profiling",
                          "PRAGMA import_database('/tmp')",
                          "SET threads = 1",
                          "CALL enable_logging()"}) {
    const Reply r = query(sql);
    EXPECT_EQ(r.status, 400) << sql << " " << r.body;
    EXPECT_TRUE(r.body.starts_with(error("bad_request")) && !r.has("root:")) << r.body;
  }
  EXPECT_TRUE(query("SELECT * FROM enable_logging('QueryLog')").has("the function enable_logging is not available"));
  for (const char* sql : {"SELECT 1", "SHOW TABLES", "DESCRIBE events", "SUMMARIZE steps", "FROM range(3)",
                          "SELECT count(*) FROM information_schema.columns", "SELECT unnest([1, 2])"})
    EXPECT_EQ(query(sql).status, 200) << sql;
}

TEST_F(QueryProcessTest, MemoryIsLimitedAndNotTheServers) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes more address space than the limit";
#endif
  serveFile(job());
  for (const char* sql : {"SELECT length(repeat('x', 2400000000))", "SELECT repeat('x', 2400000000)"}) {
    const Reply r = query(sql);
    EXPECT_EQ(r.status, 503) << r.body;
    EXPECT_TRUE(r.has("the query needs more") && r.has("ask for less data") && !r.has("\\n")) << r.body;
  }
  const std::string status = test::readFile("/proc/" + std::to_string(server_->pid()) + "/status");
  EXPECT_LT(std::atoll(status.c_str() + status.find("VmHWM:") + 6), 300'000) << "kB";
  EXPECT_EQ(query("SELECT 1").status, 200);
  EXPECT_TRUE(nothingLeft(*server_));
}

TEST_F(QueryProcessTest, TimeIsLimited) {
  serveFile(job());
  const Reply r = query(kEndless, ",\"timeout_s\":0.5");
  EXPECT_EQ(r.status, 504);
  EXPECT_TRUE(r.has("the query took longer than its 500.0 ms")) << r.body;
  EXPECT_TRUE(nothingLeft(*server_));
}

TEST_F(QueryProcessTest, AWorkerIsConfined) {
  serveFile(job());
  auto asked = begin(std::string("{\"sql\":\"") + kEndless + "\",\"timeout_s\":600}");
  ASSERT_TRUE(waitForWorker(*server_));
  const std::string process = "/proc/" + std::to_string(children(server_->pid())[0]);
  ASSERT_TRUE(eventually([&] { return test::readFile(process + "/oom_score_adj") == "1000\n"; }));
  struct stat folder {};
  ASSERT_EQ(::stat(spillFolders().at(0).c_str(), &folder), 0);
  EXPECT_EQ(folder.st_mode & 0777, 0700u);
  EXPECT_TRUE(eventually([&] {
    const std::string limits = test::readFile(process + "/limits");
    auto set = [&](const char* name) {
      const size_t at = limits.find(name);
      return at != std::string::npos && limits.substr(at, 45).find("unlimited") == std::string::npos;
    };
    return set("Max cpu time") && set("Max file size") && set("Max core file size");
  }));
}

TEST_F(QueryProcessTest, AClientThatGoesTakesItsQueryAlong) {
  serveFile(job());
  auto asked = begin(std::string("{\"sql\":\"") + kEndless + "\",\"timeout_s\":600}");
  ASSERT_TRUE(waitForWorker(*server_));
  asked.reset();
  EXPECT_TRUE(nothingLeft(*server_));
}

TEST_F(QueryProcessTest, AKilledWorkerIsAnErrorAndLeavesNothing) {
  serveFile(job());
  auto asked = begin(std::string("{\"sql\":\"") + kEndless + "\",\"timeout_s\":600}");
  ASSERT_TRUE(waitForWorker(*server_));
  ::kill(children(server_->pid())[0], SIGKILL);
  const std::string answer = asked->readUntil("}}");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ") && answer.find("signal 9") != std::string::npos) << answer;
  EXPECT_TRUE(nothingLeft(*server_));
}

TEST_F(QueryProcessTest, AServerStopsDuringAQuery) {
  serveFile(job());
  auto asked = begin(std::string("{\"sql\":\"") + kEndless + "\",\"timeout_s\":600}");
  ASSERT_TRUE(waitForWorker(*server_));
  const pid_t worker = children(server_->pid())[0];
  server_->signal(SIGTERM);
  EXPECT_EQ(server_->wait().rc, 0);
  EXPECT_TRUE(spillFolders().empty());
  EXPECT_FALSE(test::exists("/proc/" + std::to_string(worker)));
}

TEST_F(QueryProcessTest, AWorkerDoesNotOutliveAServerThatIsKilled) {
  serveFile(job());
  auto asked = begin(std::string("{\"sql\":\"") + kEndless + "\",\"timeout_s\":600}");
  ASSERT_TRUE(waitForWorker(*server_));
  const pid_t worker = children(server_->pid())[0];
  server_->signal(SIGKILL);
  EXPECT_EQ(server_->wait().rc, 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return ::kill(worker, 0) != 0; }));
}

TEST_F(QueryProcessTest, AResultBeyondTheLimitIsAnError) {
  serveFile(job());
  const Reply r = query("SELECT repeat('x', 100000) FROM range(3000)", ",\"format\":\"csv\"");
  EXPECT_EQ(r.status, 503) << r.head;
  EXPECT_TRUE(r.has("the result is larger than 256.0 MB: ask for fewer rows or columns")) << r.body.substr(0, 300);
  EXPECT_TRUE(nothingLeft(*server_));
}

TEST_F(QueryProcessTest, AFailureAfterManyRowsIsAnError) {
  serveFile(job());
  const Reply r = query("SELECT CASE WHEN range < 400000 THEN range ELSE error('stop here') END FROM range(500000)",
                        ",\"format\":\"csv\",\"max_rows\":1000000");
  EXPECT_EQ(r.status, 400) << r.head;
  EXPECT_TRUE(r.has("stop here")) << r.body.substr(0, 300);
}

TEST_F(QueryProcessTest, EveryFormatTellsThatItWasCut) {
  serveFile(job());
  for (const char* format : {"json", "csv", "arrow"}) {
    const std::string in = std::string(",\"format\":\"") + format + "\"";
    Reply r = query("SELECT * FROM range(20)", in + ",\"max_rows\":10");
    EXPECT_TRUE(r.status == 200 && r.header("X-Truncated: true") && r.header("X-Row-Count: 10")) << format << r.head;
    r = query("SELECT * FROM range(10)", in + ",\"max_rows\":10");
    EXPECT_TRUE(r.status == 200 && r.header("X-Truncated: false") && r.header("X-Row-Count: 10")) << format << r.head;
    r = query("SELECT * FROM range(300000)", in + ",\"max_rows\":299999");  // too large to be held in memory
    EXPECT_TRUE(r.status == 200 && r.header("X-Truncated: true") && r.header("X-Row-Count: 299999")) << format;
    EXPECT_GT(r.body.size(), 1'000'000u);
  }
  EXPECT_TRUE(nothingLeft(*server_));
}

TEST_F(QueryProcessTest, AThirdQueryIsToldToTryAgain) {
  serveFile(job());
  const std::string body = std::string("{\"timeout_s\":600,\"sql\":\"") + kEndless + "\"}";
  auto first = begin(body), second = begin(body);
  ASSERT_TRUE(eventually([&] { return children(server_->pid()).size() == 2; }));
  const Reply r = query("SELECT 1", ",\"timeout_s\":0.1");
  EXPECT_EQ(r.status, 429);
  EXPECT_TRUE(r.body.starts_with(error("too_many")) && r.has("other queries are still running: try again")) << r.body;
  first.reset();
  EXPECT_EQ(query("SELECT 1").status, 200);
}

TEST_F(QueryProcessTest, TheNextQueryRemovesWhatAKilledServerLeft) {
  serveFile(job());
  auto asked = begin(std::string("{\"sql\":\"") + kEndless + "\",\"timeout_s\":600}");
  ASSERT_TRUE(waitForWorker(*server_));
  const std::string left = spillFolders().at(0);
  server_->signal(SIGKILL);
  EXPECT_EQ(server_->wait().rc, 128 + SIGKILL);
  EXPECT_TRUE(test::exists(left));
  serveFile(job());
  EXPECT_EQ(query("SELECT 1").status, 200);
  EXPECT_FALSE(test::exists(left));
}

TEST_F(QueryProcessTest, TheSpillFolderIsBounded) {
  query::WorkerOptions o;
  o.trace = job();
  o.format = "csv";
  o.max_rows = 10;
  o.memory_bytes = 50'000'000;
  o.spill = spill_;
  o.spill_bytes = 5'000'000;
  o.time_ms = 60'000;
  o.parent = ::getpid();
  const std::string sql = "SELECT count(h) FROM (SELECT hash(range) AS h FROM range(5000000) ORDER BY h)";
  const Output out = test::tracesmith(o.toArguments(), sql);
  EXPECT_EQ(out.rc, query::exitOf(Code::kExhausted)) << out.out << out.err;
  EXPECT_NE(out.err.find("5.000 MB of disk): ask for less data"), std::string::npos) << out.err;
}

/// Two heavy queries, as many as run at a time, and what agents send is still stored.
TEST_F(QueryProcessTest, IngestionGoesOnDuringHeavyQueries) {
  serveMaster();
  auto a = agent("n1", {"--sim", "2"});
  ASSERT_TRUE(eventually([&] { return get(http_, "/api/v1/nodes").has("\"healthy\":true"); }));
  const Reply r = ask(http_, "POST", "/api/v1/sessions", "{\"name\":\"long\"}");
  ASSERT_EQ(r.status, 201) << r.body;
  const std::string id = r.body.substr(r.body.find("\"id\":\"") + 6, 12);
  ASSERT_TRUE(eventually([&] { return get(http_, "/api/v1/traces/" + id + "/timeline").status == 200; }));
  const std::string body = "{\"trace\":\"" + id + "\",\"timeout_s\":600,\"sql\":\"" + kEndless + "\"}";
  auto first = begin(body), second = begin(body);
  ASSERT_TRUE(eventually([&] { return children(master_->pid()).size() == 2; }));
  auto stored = [&] {
    const std::string nodes = get(http_, "/api/v1/nodes").body, key = "\"stored_events\":";
    const size_t at = nodes.find(key);
    return at == std::string::npos ? 0 : std::atoll(nodes.c_str() + at + key.size());
  };
  const int64_t before = stored();
  EXPECT_TRUE(eventually([&] { return stored() > before + 1000; }));
  EXPECT_EQ(children(master_->pid()).size(), 2u);
  master_->signal(SIGTERM);
  EXPECT_EQ(master_->wait().rc, 0);
}

}  // namespace
}  // namespace tracesmith::server
