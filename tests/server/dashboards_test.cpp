// Dashboards and alert rules against what a master and an exporter serve.
#include "server/server_fixture.hpp"
#include "support/tree.hpp"

namespace tracesmith::server {
namespace {

constexpr const char* kDashboards[] = {"nodes", "job", "collectives"};

std::string source(const std::string& path) { return TRACESMITH_SOURCE_DIR "/" + path; }
std::string dashboard(const std::string& name) { return source("deploy/grafana/tracesmith-" + name + ".json"); }
bool installed(const std::string& program) { return test::run({"sh", "-c", "command -v " + program}).rc == 0; }

class Dashboards : public ServerFixture {
 protected:
  /// A master with a session and two simulated ranks that have done some steps.
  void serveJob() {
    serveMaster({"--statsd", "127.0.0.1:9"});
    node_ = agent("n1", {"--sim", "2"});
    ASSERT_EQ(ask(http_, "POST", "/api/v1/sessions", "{\"name\":\"s\"}").status / 100, 2);
    ASSERT_TRUE(eventually([&] {
      metrics_ = get(http_, "/metrics").body;
      return has(metrics_, "tracesmith_rank_step_seconds{") &&
             has(metrics_, "tracesmith_collective_bandwidth_bytes_per_second{") &&
             has(metrics_, "tracesmith_rank_blame_seconds_total{");
    })) << metrics_;
  }
  std::unique_ptr<test::Child> node_;
  std::string metrics_;
};

TEST_F(Dashboards, AndAlertRulesAskOnlyForWhatIsServed) {
  serveJob();
  test::writeFile(dir_ / "master", metrics_);
  test::Child exporter(
      {TRACESMITH_BIN, "exporter", "--port", "0", "--interval", "50", "--slow-interval", "100"},
      {{"TRACESMITH_NVML", test::fakeNvml()}, {"TRACESMITH_FAKE_NVML", test::nvmlDescription("h100-nvswitch")}});
  ASSERT_TRUE(eventually([&] { return has(exporter.out(), "/metrics"); })) << exporter.err();
  const uint16_t port = portOf(exporter.out(), "127.0.0.1:");
  std::vector<std::string> argv = {"python3", source("tests/support/check_series.py")};
  for (const char* name : kDashboards) argv.push_back(dashboard(name));
  argv.insert(argv.end(), {source("deploy/prometheus/alerts.yml"), "--", source("src/model/rate.def"), dir_ / "master",
                           dir_ / "exporter"});
  test::Output checked;
  EXPECT_TRUE(eventually([&] {  // metrics that are read seldom come later
    test::writeFile(dir_ / "exporter", get(port, "/metrics").body);
    checked = test::run(argv);
    return checked.rc == 0;
  })) << checked.err;
  // The check can fail.
  test::writeFile(dir_ / "bad.yml", "expr: tracesmith_no_such_series > 0\n");
  EXPECT_NE(test::run({"python3", source("tests/support/check_series.py"), dir_ / "bad.yml", "--", dir_ / "master"}).rc,
            0);
}

TEST_F(Dashboards, MetricsAreAllInTheDocumentation) {
  serveJob();
  const std::string text = test::readFile(source("docs/export-metrics.md")), type = "# TYPE ";
  for (size_t at = metrics_.find(type); at != std::string::npos; at = metrics_.find(type, at + 1)) {
    const size_t name = at + type.size();
    const std::string metric = metrics_.substr(name, metrics_.find(' ', name) - name);
    EXPECT_TRUE(metric.starts_with("tracesmith_gpu_") || has(text, "`" + metric + "`")) << metric;
  }
}

TEST_F(Dashboards, ShowDataOfARealPrometheus) {
  if (!installed("prometheus")) GTEST_SKIP() << "Prometheus is not installed";
  serveJob();
  test::writeFile(dir_ / "p.yml",
                  "global: {scrape_interval: 1s}\nrule_files: [" + source("deploy/prometheus/alerts.yml") +
                      "]\nscrape_configs:\n- job_name: tracesmith\n  static_configs:\n  - targets: ['127.0.0.1:" +
                      std::to_string(http_) + "']\n");
  const uint16_t port = freePort();
  test::Child prometheus({"prometheus", "--config.file=" + (dir_ / "p.yml"), "--storage.tsdb.path=" + (dir_ / "data"),
                          "--web.listen-address=127.0.0.1:" + std::to_string(port), "--log.level=error"});
  for (const char* name : kDashboards) {
    test::Output asked;
    EXPECT_TRUE(eventually([&] {  // rates need several scrapes
      asked = test::run({"python3", source("tests/support/ask_dashboard.py"), dashboard(name), std::to_string(port)});
      return asked.rc == 0;
    })) << name
        << ": " << asked.err << prometheus.err();
  }
}

TEST(AlertRules, FireWhenTheyShouldAndAreValid) {
  if (!installed("promtool")) GTEST_SKIP() << "promtool is not installed";
  const test::Output checked = test::run({"promtool", "check", "rules", source("deploy/prometheus/alerts.yml")});
  EXPECT_EQ(checked.rc, 0) << checked.out << checked.err;
  const test::Output tested = test::run({"promtool", "test", "rules", source("tests/support/alerts_test.yml")});
  EXPECT_EQ(tested.rc, 0) << tested.out << tested.err;
}

}  // namespace
}  // namespace tracesmith::server
