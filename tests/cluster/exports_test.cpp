// Metrics and spans that a master sends out, to the real servers where there are any.
#include <arpa/inet.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "cluster/cluster_fixture.hpp"
#include "server/http_client.hpp"

namespace tracesmith::cluster {
namespace {

bool installed(const std::string& program) { return test::run({"sh", "-c", "command -v " + program}).rc == 0; }

std::string support(const std::string& file) { return TRACESMITH_SOURCE_DIR "/tests/support/" + file; }

class Exports : public ClusterFixture {
 protected:
  /// The number of a field of the only export in `cluster status --json`.
  int64_t field(const std::string& name) const {
    const std::string text = command({"status", "--json"}).out;
    const size_t exports = text.find("\"exports\":["), at = text.find("\"" + name + "\":", exports);
    return exports == std::string::npos || at == std::string::npos ? -1 : std::stoll(text.substr(at + name.size() + 3));
  }
  /// The server gets a signal and is started again, the master is killed in between: every reading must be there once.
  void killBoth(const std::function<std::unique_ptr<Child>()>& start, const std::vector<std::string>& flags,
                const std::string& kind, uint16_t port, int signal = SIGKILL) {
    std::unique_ptr<Child> server = start();
    startMaster(flags);
    ASSERT_TRUE(eventually([&] { return field("sent") > 0; })) << server->err();
    server->signal(signal);
    (void)server->wait();
    ASSERT_TRUE(eventually([&] { return field("waiting") > 0 && field("retries") > 0; }));
    master_->signal(SIGKILL);
    (void)master_->wait();
    startMaster(flags);
    EXPECT_GT(field("waiting"), 0) << "what waited before the master was killed";
    server = start();
    ASSERT_TRUE(eventually([&] { return field("waiting") == 0 && field("sent") > 0; }))
        << command({"status"}).err << server->err();
    EXPECT_EQ(field("dropped"), 0);
    const std::string status = command({"status"}).out;
    EXPECT_TRUE(has(status, "metrics to")) << status;
    master_->signal(SIGTERM);
    (void)master_->wait();
    Output readings;
    EXPECT_TRUE(eventually([&] {  // a server may take a moment to show what it has
      readings = test::run({"python3", support("check_readings.py"), kind, std::to_string(port), "2"});
      return readings.rc == 0;
    })) << readings.err;
  }
  static bool answers(uint16_t port, const std::string& path) { return server::get(port, path).status / 100 == 2; }

  const std::vector<std::string> often_ = {"--export-interval", "0.2"};
  std::vector<std::string> with(std::vector<std::string> flags) const {
    flags.insert(flags.end(), often_.begin(), often_.end());
    return flags;
  }
};

TEST_F(Exports, PrometheusHasEveryReadingOnceThoughItAndTheMasterAreKilled) {
  if (!installed("prometheus")) GTEST_SKIP() << "Prometheus is not installed";
  const uint16_t port = freePort();
  test::writeFile(dir_ / "p.yml", "global: {}\n");
  auto start = [&] {
    auto server = std::make_unique<Child>(std::vector<std::string>{
        "prometheus", "--config.file=" + (dir_ / "p.yml"), "--storage.tsdb.path=" + (dir_ / "data"),
        "--web.listen-address=127.0.0.1:" + std::to_string(port), "--web.enable-remote-write-receiver",
        "--log.level=warn"});
    EXPECT_TRUE(eventually([&] { return answers(port, "/-/ready"); })) << server->err();
    return server;
  };
  killBoth(start, with({"--remote-write", "http://127.0.0.1:" + std::to_string(port)}), "prometheus", port);
}

TEST_F(Exports, VictoriaMetricsHasEveryReadingOnceThoughItStopsAndTheMasterIsKilled) {
  if (!installed("victoria-metrics")) GTEST_SKIP() << "VictoriaMetrics is not installed";
  const uint16_t port = freePort();
  auto start = [&] {
    auto server = std::make_unique<Child>(std::vector<std::string>{
        "victoria-metrics", "-storageDataPath=" + (dir_ / "data"), "-httpListenAddr=127.0.0.1:" + std::to_string(port),
        "-loggerLevel=WARN", "-search.latencyOffset=0s"});
    EXPECT_TRUE(eventually([&] { return answers(port, "/health"); })) << server->err();
    return server;
  };
  // What it has taken it keeps in memory for some seconds: a server that is killed loses that, so it is asked to stop.
  killBoth(start, with({"--remote-write", "http://127.0.0.1:" + std::to_string(port)}), "prometheus", port, SIGTERM);
}

TEST_F(Exports, InfluxDbHasEveryReadingOnceThoughItAndTheMasterAreKilled) {
  if (!installed("influxd")) GTEST_SKIP() << "InfluxDB is not installed";
  const uint16_t port = freePort(), rpc = freePort();
  auto folder = [&](const char* name) { return "\"" + (dir_ / name) + "\"\n"; };
  test::writeFile(
      dir_ / "influx.conf",
      "reporting-disabled = true\nbind-address = \"127.0.0.1:" + std::to_string(rpc) +
          "\"\n[meta]\n  dir = " + folder("meta") + "[data]\n  dir = " + folder("data") +
          "  wal-dir = " + folder("wal") + "[http]\n  bind-address = \"127.0.0.1:" + std::to_string(port) +
          "\"\n  log-enabled = false\n[monitor]\n  store-enabled = false\n[logging]\n  level = \"error\"\n");
  auto start = [&] {
    auto server = std::make_unique<Child>(std::vector<std::string>{"influxd", "-config", dir_ / "influx.conf"});
    EXPECT_TRUE(eventually([&] { return answers(port, "/ping"); })) << server->err();
    EXPECT_EQ(
        test::run({"python3", "-c",
                   "import sys,urllib.request as r,urllib.parse as p;r.build_opener(r.ProxyHandler({})).open("
                   "f'http://127.0.0.1:{sys.argv[1]}/query',p.urlencode({'q':'CREATE DATABASE tracesmith'}).encode())",
                   std::to_string(port)})
            .rc,
        0);
    return server;
  };
  killBoth(start, with({"--influx", "http://127.0.0.1:" + std::to_string(port)}), "influx", port);
}

/// A receiver that takes anything, and what it has got.
class ExportsReceiver : public Exports {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(dir_ / "got");
    receiver_ = std::make_unique<Child>(std::vector<std::string>{"python3", support("receiver.py"), dir_ / "got"});
    ASSERT_TRUE(eventually([&] { return has(receiver_->out(), "\n"); })) << receiver_->err();
    url_ = "http://127.0.0.1:" + std::to_string(std::stoi(receiver_->out()));
  }
  void answer(const std::string& code) {
    test::writeFile(dir_ / "answer", code);
    std::filesystem::rename(dir_ / "answer", dir_ / "got/answer");
  }
  void answerWell() { std::filesystem::remove(dir_ / "got/answer"); }
  std::vector<std::string> got(const std::string& ending) const {
    std::vector<std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(dir_ / "got"))
      if (file.path().string().ends_with(ending)) files.push_back(file.path().string());
    std::sort(files.begin(), files.end());
    return files;
  }

  std::unique_ptr<Child> receiver_;
  std::string url_;
};

/// What protoc says of messages that were received.
std::string decoded(const std::vector<std::string>& files, const std::string& type) {
  std::string text;
  for (const std::string& file : files) {
    const Output one =
        test::run({"protoc", "--decode=otlp." + type, "-I" TRACESMITH_SOURCE_DIR "/tests/support", "otlp.proto"},
                  test::readFile(file));
    EXPECT_EQ(one.rc, 0) << one.err;
    text += one.out;
  }
  return text;
}

std::multiset<std::string> valuesOf(const std::string& text, const std::string& key) {
  std::multiset<std::string> values;
  for (size_t at = text.find(" " + key + ": "); at != std::string::npos; at = text.find(" " + key + ": ", at + 1))
    values.insert(text.substr(at, text.find('\n', at) - at));
  return values;
}

TEST_F(ExportsReceiver, StepsAndCollectivesAreSpansOnceThoughTheReceiverWasAway) {
  if (!installed("protoc")) GTEST_SKIP() << "protoc is not installed";
  startMaster(with({"--otlp", url_}));
  answer("503");
  const std::unique_ptr<Child> node = agent("n1", {"--sim", "2"});
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "s"}).rc, 0);
  ASSERT_TRUE(eventually([&] { return field("retries") > 0; }));
  ASSERT_TRUE(eventually([&] {
    return has(command({"query", "--name", "s", "SELECT count(*) > 20 AS enough FROM steps", "--format", "csv"}).out,
               "true");
  }));
  ASSERT_EQ(command({"stop", "--name", "s"}).rc, 0);
  const Output counted = command({"query", "--name", "s", "--format", "csv",
                                  "SELECT (SELECT count(*) FROM steps WHERE dur IS NOT NULL) AS steps, (SELECT "
                                  "count(*) FROM collectives WHERE dur IS NOT NULL) AS collectives"});
  ASSERT_EQ(counted.rc, 0) << counted.err;
  const size_t line = counted.out.find('\n'), comma = counted.out.find(',', line);
  const size_t steps = std::stoul(counted.out.substr(line + 1)),
               collectives = std::stoul(counted.out.substr(comma + 1));
  ASSERT_GT(steps, 20u);
  ASSERT_GT(collectives, steps);
  answerWell();
  std::string spans;
  // All of the session; what lies just outside of it is stored, too.
  EXPECT_TRUE(eventually([&] {
    if (field("waiting") != 0) return false;
    spans = decoded(got("-v1-traces"), "TracesRequest");
    const size_t total = valuesOf(spans, "span_id").size(), of_steps = valuesOf(spans, "name").count(" name: \"step\"");
    return of_steps >= steps && total - of_steps >= collectives;
  })) << steps
      << " steps, " << collectives << " collectives; got " << valuesOf(spans, "span_id").size();
  const std::multiset<std::string> ids = valuesOf(spans, "span_id");
  EXPECT_EQ(ids.size(), std::set<std::string>(ids.begin(), ids.end()).size()) << "each once";
  EXPECT_TRUE(has(spans, "name: \"all_reduce\"")) << spans.substr(0, 2000);
  const std::string metrics = decoded(got("-v1-metrics"), "MetricsRequest");
  EXPECT_TRUE(has(metrics, "name: \"tracesmith_node_up\""));
  EXPECT_TRUE(has(metrics, "name: \"tracesmith_rank_step_seconds\""));
  EXPECT_EQ(field("dropped"), 0);
}

TEST_F(ExportsReceiver, WhatIsRefusedIsDroppedAndWhatOnlyLacksCredentialsWaits) {
  startMaster(with({"--influx", url_}));
  ASSERT_TRUE(eventually([&] { return field("sent") > 0; }));
  EXPECT_EQ(field("dropped"), 0);
  answer("401");
  ASSERT_TRUE(eventually([&] { return field("waiting") > 0 && field("retries") > 0; }));
  EXPECT_EQ(field("dropped"), 0);
  EXPECT_TRUE(has(command({"status"}).err, "answered 401"));
  answer("400");
  ASSERT_TRUE(eventually([&] { return field("dropped") > 0; }));
  EXPECT_TRUE(eventually([&] { return has(command({"status"}).err, "answered 400"); }));
  answerWell();
  EXPECT_TRUE(eventually([&] { return field("waiting") == 0; }));
}

TEST_F(ExportsReceiver, CredentialsComeFromTheEnvironmentOrAFileOfTheOwner) {
  test::writeFile(dir_ / "auth", "# of the team\notlp Authorization: Bearer abc\ninflux X-Scope-OrgID: blue\n");
  ::chmod((dir_ / "auth").c_str(), 0644);
  more_environment_ = {{"TRACESMITH_INFLUX_AUTHORIZATION", "Token t:1"}};
  const std::vector<std::string> argv = {TRACESMITH_BIN, "cluster", "master",     "--port",  "0",
                                         "--http-port",  "0",       "--data-dir", dir_ / "x"};
  auto failing = [&](std::vector<std::string> more) {
    more.insert(more.begin(), argv.begin(), argv.end());
    return test::runWith(environment(), more);
  };
  const Output open = failing({"--influx", url_, "--export-auth", dir_ / "auth"});
  EXPECT_EQ(open.rc, 1);
  EXPECT_TRUE(has(open.err, "chmod 600")) << open.err;
  const Output secret = failing({"--influx", "http://me:pass@localhost"});
  EXPECT_EQ(secret.rc, 2);
  EXPECT_TRUE(has(secret.err, "TRACESMITH_INFLUX_AUTHORIZATION")) << secret.err;
  EXPECT_FALSE(has(secret.err, "me:pass")) << secret.err;
  ::chmod((dir_ / "auth").c_str(), 0600);
  startMaster(with({"--influx", url_, "--otlp", url_, "--export-auth", dir_ / "auth"}));
  ASSERT_TRUE(eventually([&] { return !got("-write?db=tracesmith").empty() && !got("-v1-metrics").empty(); }));
  const std::string influx = test::readFile(got("-write?db=tracesmith")[0] + ".headers"),
                    otlp = test::readFile(got("-v1-metrics")[0] + ".headers");
  EXPECT_TRUE(has(influx, "Authorization: Token t:1") && has(influx, "X-Scope-OrgID: blue")) << influx;
  EXPECT_TRUE(has(otlp, "Authorization: Bearer abc") && !has(otlp, "X-Scope-OrgID")) << otlp;
  struct stat state {};
  ASSERT_EQ(::stat((dir_ / "m/master/exports/influx").c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0700u);
}

TEST_F(Exports, AReceiverThatIsNoAddressIsWrongUsage) {
  for (const char* option : {"--remote-write", "--otlp", "--influx", "--statsd"}) {
    const Output o = test::runWith(environment(), {TRACESMITH_BIN, "cluster", "master", "--port", "0", "--http-port",
                                                   "0", "--data-dir", dir_ / "x", option, "nowhere"});
    EXPECT_EQ(o.rc, 2) << option;
    EXPECT_TRUE(has(o.err, std::string(option) + ": 'nowhere' is not ")) << o.err;
    EXPECT_TRUE(has(o.err, "(see tracesmith cluster master --help)")) << o.err;
  }
}

TEST_F(Exports, StatsdGetsGaugesAndTheGrowthOfCounters) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  startMaster(with({"--statsd", "127.0.0.1:" + std::to_string(ntohs(address.sin_port))}));
  std::string lines;
  EXPECT_TRUE(eventually([&] {
    char buffer[4096];
    for (ssize_t n; (n = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT)) > 0;)
      lines.append(buffer, static_cast<size_t>(n));
    return has(lines, "tracesmith_hang:0|g|#instance:") &&
           has(lines, "tracesmith_export_readings_total:1|c|#instance:");
  })) << lines;
  ::close(fd);
}

}  // namespace
}  // namespace tracesmith::cluster
