// The API of a master: nodes, sessions, what is live; gswarm's endpoints.
#include <sys/stat.h>

#include "server/server_fixture.hpp"
#include "support/training_ring.hpp"

namespace tracesmith::server {
namespace {

class ClusterApi : public ServerFixture {};

TEST_F(ClusterApi, SaysWhatTheClusterIs) {
  serveMaster();
  auto a = agent("n1", {"--sim", "2"});
  ASSERT_TRUE(eventually([&] { return get(http_, "/api/v1/nodes").has("\"healthy\":true"); }));
  const Reply info = get(http_, "/api/v1/info");
  EXPECT_TRUE(info.has("\"mode\":\"cluster\"") && info.has("\"simulated\":true") && info.has("\"role\":\"admin\""))
      << info.body;
  EXPECT_TRUE(info.header("X-Content-Type-Options: nosniff") && info.header("Cache-Control: no-store")) << info.head;
  const Reply nodes = get(http_, "/api/v1/nodes");
  EXPECT_TRUE(nodes.has("\"node\":\"n1\"") && nodes.has("Simulated H100")) << nodes.body;
  EXPECT_TRUE(get(http_, "/api/v1/devices").has("\"node\":\"n1\",\"index\":1"));
  const Reply topology = get(http_, "/api/v1/topology");
  EXPECT_TRUE(topology.has("\"node\":\"n1\"") && topology.has("\"kind\":\"NVSwitch\"")) << topology.body;
  EXPECT_EQ(get(http_, "/api/v1/health").status, 200);
  EXPECT_EQ(get(http_, "/api/v1/ready").status, 200);
  EXPECT_TRUE(get(http_, "/api/v1/schema").has("\"name\":\"grid_x\""));
  EXPECT_TRUE(get(http_, "/api/v1/hang").has("\"state\":\""));
  EXPECT_TRUE(get(http_, "/clients").has("\"client_id\":\"n1\""));
  EXPECT_TRUE(get(http_, "/status").has("\"is_profiling\":false"));
  EXPECT_EQ(get(http_, "/api/v1/nodes/nobody/clock").status, 404);
  ASSERT_TRUE(eventually([&] { return get(http_, "/api/v1/nodes/n1/clock").has("\"bound_ns\":"); }));
}

TEST_F(ClusterApi, ANodeThatWasNotHeardYetHasNoTimeOfSilence) {
  serveMaster();
  auto a = agent("n1", {"--sim", "2"});
  ASSERT_TRUE(eventually([&] { return get(http_, "/api/v1/nodes").has("\"healthy\":true"); }));
  EXPECT_TRUE(get(http_, "/clients").has("\"last_seen_s\":0"));
  a.reset();
  master_.reset();
  serveMaster();
  const Reply nodes = get(http_, "/api/v1/nodes");
  EXPECT_TRUE(nodes.has("\"node\":\"n1\"") && nodes.has("\"silent_s\":null")) << nodes.body;
  EXPECT_TRUE(nodes.has("\"simulated\":true,\"driver\":")) << "the master keeps it: " << nodes.body;
  EXPECT_TRUE(get(http_, "/clients").has("\"last_seen_s\":null"));
  EXPECT_FALSE(get(http_, "/metrics").has("tracesmith_node_silent_seconds{"));
  // One form of a node, whoever asks.
  const std::string node = nodes.body.substr(nodes.body.find("{\"node\":"), nodes.body.find("],\"now\"") - 10);
  EXPECT_EQ(command({"nodes", "--json"}).out, "{\"nodes\":[" + node + "]}\n");
}

TEST_F(ClusterApi, MetricsComeOnceASecond) {
  serveMaster();
  auto a = agent("n1", {"--sim", "2"});
  const std::string value = "\"gpu_utilization_percent\":";
  ASSERT_TRUE(eventually([&] {
    const Reply r = get(http_, "/api/v1/metrics/latest");
    return r.has(value) && !r.has(value + "null");
  }));
  EXPECT_TRUE(get(http_, "/api/v1/metrics/names").has("{\"name\":\"gpu_power_watts\",\"unit\":\"W\"}"));
  ASSERT_TRUE(eventually([&] {
    const Reply r = get(http_, "/api/v1/metrics/series?metric=gpu_utilization_percent&node=n1&gpu=1");
    return r.has("\"index\":1") && !r.has("\"index\":0") && r.has("\"times\":[");
  }));
  EXPECT_TRUE(get(http_, "/metrics/latest").has("\"gpu_id\":\"n1:0:Simulated"));
  const Reply prometheus = get(http_, "/metrics");
  EXPECT_TRUE(prometheus.has("tracesmith_node_up{node=\"n1\"} 1")) << prometheus.body;
  EXPECT_TRUE(prometheus.has("tracesmith_gpu_utilization_ratio{node=\"n1\",gpu=\"0\",simulated=\"true\"}"));
  EXPECT_EQ(get(http_, "/api/v1/metrics/series").status, 400);
  EXPECT_EQ(get(http_, "/api/v1/metrics/series?metric=x&gpu=a").status, 400);
}

TEST_F(ClusterApi, ChoosesDevices) {
  serveMaster();
  auto a = agent("n1", {"--sim", "3"});
  const std::string near = "{\"count\":2,\"near\":\"n1:1\",\"precision\":\"bf16\",\"min_memory_bytes\":1000000}";
  ASSERT_TRUE(eventually([&] { return ask(http_, "POST", "/api/v1/select", near).has("\"suitable\":2,"); }))
      << ask(http_, "POST", "/api/v1/select", near).body;
  const Reply chosen = ask(http_, "POST", "/api/v1/select", near);
  EXPECT_TRUE(chosen.has("\"near_gbps\":478") && chosen.has("\"simulated\":true")) << chosen.body;
  EXPECT_TRUE(chosen.has("{\"device_id\":\"n1:1\",\"reason\":\"it is the device to be near to\"}")) << chosen.body;
  const Reply none = ask(http_, "POST", "/api/v1/select", "{\"precision\":\"fp4\"}");
  EXPECT_EQ(none.status, 200);
  EXPECT_TRUE(none.has("\"devices\":[],") && none.has("\"reason\":\"it does not support the precision\"")) << none.body;
  const Reply typo = ask(http_, "POST", "/api/v1/select", "{\"min_memory\":1}");
  EXPECT_EQ(typo.status, 400);
  EXPECT_TRUE(typo.has("there is no field 'min_memory'")) << typo.body;
  EXPECT_EQ(ask(http_, "POST", "/api/v1/select", "{\"count\":0}").status, 400);
  EXPECT_EQ(ask(http_, "POST", "/api/v1/select", "{\"exclude\":[1]}").status, 400);
  EXPECT_EQ(ask(http_, "POST", "/api/v1/select", "{\"near\":\"n9:0\"}").status, 404);
}

TEST_F(ClusterApi, PlacesRanks) {
  serveMaster();
  auto a = agent("n1", {"--sim", "4"});
  const std::string job = "{\"tensor\":2,\"data\":2}";
  ASSERT_TRUE(eventually([&] {
    return ask(http_, "POST", "/api/v1/place", job).has("\"rank\":3,\"device_id\":\"n1:");
  })) << ask(http_, "POST", "/api/v1/place", job).body;
  EXPECT_TRUE(ask(http_, "POST", "/api/v1/place", job).has("\"exact\":true,\"assumed_links\":0"));
  EXPECT_EQ(ask(http_, "POST", "/api/v1/place", "{\"tensor\":8}").status, 400);
  EXPECT_EQ(ask(http_, "POST", "/api/v1/place", "{\"nodes\":\"n9\"}").status, 404);
  EXPECT_TRUE(ask(http_, "POST", "/api/v1/place", "{\"tensors\":1}").has("there is no field 'tensors'"));
}

TEST_F(ClusterApi, SaysHowFastRanksTrain) {
  serveMaster();
  test::TrainingRing ring(rings() + "/1.ring", 3, "trainer");
  auto a = agent("n1", {"--sim", "1"});
  const std::string pid = std::to_string(::getpid());
  ring.step(7);
  ring.counter("tokens/s", 5000);
  ASSERT_TRUE(eventually([&] { return get(http_, "/api/v1/metrics/latest").has("\"tokens_per_s\":5000"); }));
  const Reply latest = get(http_, "/api/v1/metrics/latest");
  EXPECT_TRUE(latest.has("\"pid\":" + pid + ",\"rank\":3,\"role\":\"trainer\",\"simulated\":false,\"step\":7,"))
      << latest.body;
  EXPECT_TRUE(latest.has("\"mfu_percent\":null,\"samples_per_s\":null,\"tokens_per_s\":5000}")) << latest.body;
  const Reply prometheus = get(http_, "/metrics");
  EXPECT_TRUE(prometheus.has("tracesmith_rank_tokens_per_second{node=\"n1\",pid=\"" + pid +
                             "\",rank=\"3\",role=\"trainer\"} 5000\n"))
      << prometheus.body;
}

TEST_F(ClusterApi, SessionsStartAndStop) {
  serveMaster();
  auto a = agent("n1", {"--sim", "1"});
  ASSERT_TRUE(eventually([&] { return get(http_, "/api/v1/nodes").has("\"healthy\":true"); }));
  Reply r = ask(http_, "POST", "/api/v1/sessions", "{\"name\":\"one\"}");
  ASSERT_EQ(r.status, 201) << r.body;
  EXPECT_TRUE(r.has("\"state\":\"recording\"") && r.has("\"end\":null")) << r.body;
  const std::string id = r.body.substr(r.body.find("\"id\":\"") + 6, 12);
  EXPECT_TRUE(get(http_, "/status").has("\"is_profiling\":true"));
  r = ask(http_, "POST", "/api/v1/sessions", "{\"name\":\"one\"}");
  EXPECT_EQ(r.status, 400);
  EXPECT_TRUE(r.has("already recording")) << r.body;
  // Something to see in it.
  ASSERT_TRUE(eventually([&] {
    const Reply n = get(http_, "/api/v1/nodes");
    return n.has("\"stored_events\":") && !n.has("\"stored_events\":0,");
  }));
  // As `curl -X POST` asks: without a body, and without saying so.
  RawConnection plain(http_);
  ASSERT_TRUE(plain.send("POST /api/v1/sessions/" + id + "/stop HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_TRUE(plain.readUntil("}").starts_with("HTTP/1.1 200 "));
  ASSERT_TRUE(eventually([&] { return get(http_, "/api/v1/sessions").has("\"state\":\"complete\""); }));
  ASSERT_TRUE(eventually([&] {
    const Reply t = get(http_, "/api/v1/traces/" + id + "/timeline");
    return t.status == 200 && t.has("\"kind\":\"stream\"");
  })) << get(http_, "/api/v1/traces/" + id + "/timeline").body;
  EXPECT_TRUE(get(http_, "/api/v1/traces").has("\"id\":\"" + id + "\""));
  const Reply export_ = get(http_, "/api/v1/traces/" + id + "/export?format=sbt");
  EXPECT_TRUE(export_.header("Content-Disposition: attachment; filename=\"one.sbt\"")) << export_.head;
  test::writeFile(dir_ / "one.sbt", export_.body);
  EXPECT_EQ(test::tracesmith({"info", dir_ / "one.sbt"}).rc, 0);
#if TRACESMITH_HAS_QUERY
  r = ask(http_, "POST", "/api/v1/query", "{\"trace\":\"" + id + "\",\"sql\":\"SELECT DISTINCT node FROM nodes\"}");
  EXPECT_TRUE(r.has("\"rows\":[[\"n1\"]]")) << r.body;
#endif
  EXPECT_EQ(get(http_, "/api/v1/traces/nothing/timeline").status, 404);
}

/// A session that records has a timeline, which follows it; when it has ended it is the whole trace.
TEST_F(ClusterApi, ATimelineGrowsWithItsSession) {
  serveMaster();
  auto a = agent("n1", {"--sim", "2"});
  ASSERT_TRUE(eventually([&] { return get(http_, "/api/v1/nodes").has("\"healthy\":true"); }));
  Reply r = ask(http_, "POST", "/api/v1/sessions", "{\"name\":\"long\"}");
  ASSERT_EQ(r.status, 201) << r.body;
  const std::string id = r.body.substr(r.body.find("\"id\":\"") + 6, 12);
  auto length = [&]() -> int64_t {
    const Reply t = get(http_, "/api/v1/traces/" + id + "/timeline");
    const std::string key = "\"duration_ns\":";
    const size_t at = t.body.find(key);
    return at == std::string::npos ? 0 : std::atoll(t.body.c_str() + at + key.size());
  };
  ASSERT_TRUE(eventually([&] { return length() > 1'000'000; }));
  int64_t before = length();
  for (int i = 0; i < 2; ++i) {  // more than once: it goes on from what it had
    ASSERT_TRUE(eventually([&] { return length() > before; }));
    before = length();
  }
  const Reply stats = get(http_, "/api/v1/traces/" + id + "/stats");
  EXPECT_TRUE(stats.has("\"by_name\":[{")) << stats.body.substr(0, 300);
  EXPECT_EQ(ask(http_, "POST", "/api/v1/sessions/" + id + "/stop").status, 200);
  ASSERT_TRUE(eventually([&] { return get(http_, "/api/v1/sessions").has("\"state\":\"complete\""); }));
  ASSERT_TRUE(eventually([&] { return length() > before; }));  // its end, too
}

TEST_F(ClusterApi, GswarmsWordsDoTheSame) {
  serveMaster({"--frames", dir_ / "frames"});
  auto a = agent("n1", {"--sim", "1"});
  ASSERT_TRUE(eventually([&] { return get(http_, "/status").has("\"connected_clients\":[\"n1\"]"); }));
  const std::string gpu = "n1:0:Simulated H100";
  Reply r = get(http_, "/status");
  EXPECT_TRUE(r.has("\"is_profiling\":false") && r.has("\"freq\":null") && r.has("\"connected_clients\":[\"n1\"]") &&
              r.has("\"total_gpus\":1,\"gpu_info\":{\"n1\":[{\"id\":\"" + gpu))
      << r.body;
  r = ask(http_, "POST", "/profiling/start", "{\"name\":\"my_experiment\",\"freq\":50}");
  EXPECT_TRUE(r.status == 200 && r.has("\"success\":true") && r.has("\"name\":\"my_experiment\"") &&
              r.has("\"output_file\":\"" + (dir_ / "frames") + "/my_experiment.json\""))
      << r.body;
  EXPECT_EQ(ask(http_, "POST", "/profiling/start", "{\"name\":\"my_experiment\"}").status, 400);
  EXPECT_EQ(ask(http_, "POST", "/profiling/start", "{\"name\":\"other\"}").status, 200);
  EXPECT_TRUE(eventually([&] { return get(http_, "/metrics/latest").has("\"gpu_id\":\"" + gpu); }));
  r = get(http_, "/metrics/latest");
  EXPECT_TRUE(r.has("\"client_data\":{\"n1\":{\"timestamp\":") && r.has("\"dram_bw_gbps_rx\":")) << r.body;
  r = get(http_, "/clients");
  EXPECT_TRUE(r.has("\"total_clients\":1") && r.has("\"client_id\":\"n1\"") && r.has("\"gpu_count\":1")) << r.body;
  r = ask(http_, "POST", "/profiling/stop", "{\"name\":\"other\"}");
  EXPECT_TRUE(r.status == 200 && r.has("\"name\":\"other\"")) << r.body;
  EXPECT_EQ(ask(http_, "POST", "/profiling/stop", "{\"name\":\"nothing\"}").status, 404);
  EXPECT_EQ(ask(http_, "POST", "/profiling/stop", "{}").status, 200);  // all that are left
  r = ask(http_, "POST", "/profiling/stop", "{}");
  EXPECT_TRUE(r.status == 200 && r.has("{\"success\":false,\"message\":\"Profiling is not active.\"}")) << r.body;
  EXPECT_EQ(ask(http_, "POST", "/profiling/record", "{}").status, 400);
  EXPECT_EQ(ask(http_, "POST", "/profiling/record", "{\"app_name\":\"a\",\"queue_time\":1}").status, 400);
  EXPECT_EQ(ask(http_, "POST", "/profiling/record", "{\"last_s\":1}").status, 200);
  r = get(http_, "/profiling/sessions");
  EXPECT_TRUE(r.has("my_experiment") && r.has("\"total_sessions\":3")) << r.body;
}

TEST_F(ClusterApi, FramesOfASessionThatEndsAreWritten) {
  test::writeFile(dir_ / "twice.json", "somebody's");
  serveMaster({"--frames", dir_.path()});
  auto a = agent("n1", {"--sim", "1"});
  ASSERT_TRUE(eventually([&] { return get(http_, "/api/v1/nodes").has("\"healthy\":true"); }));
  ASSERT_EQ(ask(http_, "POST", "/profiling/start", "{\"name\":\"twice\",\"freq\":20}").status, 200);
  // When the node was heard last, in seconds; 0: its GPU is not known yet.
  auto heard = [&] {
    const std::string body = get(http_, "/metrics/latest").body, key = "\"n1\":{\"timestamp\":";
    const size_t at = body.find(key);
    return at != std::string::npos && has(body, "n1:0:") ? std::strtod(body.c_str() + at + key.size(), nullptr) : 0;
  };
  for (int reports = 0; reports < 2; ++reports) {  // the second was made while the session ran
    const double before = heard();
    ASSERT_TRUE(eventually([&] { return heard() > before + 0.1; }));
  }
  ASSERT_EQ(ask(http_, "POST", "/profiling/stop", "{}").status, 200);
  ASSERT_TRUE(eventually([&] { return get(http_, "/profiling/sessions").has("twice-2.json"); })) << master_->err();
  EXPECT_TRUE(has(test::readFile(dir_ / "twice-2.json"), "\"gpu_id\":[\"n1:0:Simulated H100\"]"));
  EXPECT_EQ(test::readFile(dir_ / "twice.json"), "somebody's");
}

TEST_F(ClusterApi, NamesAndBodiesAreChecked) {
  serveMaster();
  Reply r = ask(http_, "POST", "/api/v1/sessions", "{\"name\":\"<script>alert(1)</script>\"}");
  EXPECT_EQ(r.status, 400);
  EXPECT_TRUE(r.body.starts_with(error("bad_request"))) << r.body;
  EXPECT_TRUE(r.header("Content-Type: application/json"));
  EXPECT_EQ(ask(http_, "POST", "/api/v1/sessions", "{\"name\":\"../../etc\"}").status, 400);
  EXPECT_EQ(ask(http_, "POST", "/api/v1/sessions", "{\"name\":7}").status, 400);
  EXPECT_EQ(ask(http_, "POST", "/api/v1/sessions", "{\"name\":").status, 400);
  EXPECT_EQ(ask(http_, "POST", "/api/v1/sessions", "{\"freq_ms\":1}").status, 400);
  EXPECT_EQ(ask(http_, "POST", "/api/v1/sessions/nothing/stop").status, 404);
}

TEST_F(ClusterApi, FiftyPagesListenAtOnce) {
  serveMaster();
  std::vector<std::unique_ptr<RawConnection>> pages;
  for (int i = 0; i < 50; ++i) {
    pages.push_back(std::make_unique<RawConnection>(http_));
    ASSERT_TRUE(pages.back()->send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  }
  for (auto& page : pages) {
    const std::string text = page->readUntil("event: metrics");
    EXPECT_NE(text.find("Content-Type: text/event-stream"), std::string::npos) << text;
    EXPECT_NE(text.find("event: status\ndata: {\"nodes\":["), std::string::npos) << text;
    EXPECT_NE(text.find("event: metrics"), std::string::npos) << text;
  }
  EXPECT_EQ(get(http_, "/api/v1/info").status, 200);  // and requests are still answered
  EXPECT_TRUE(get(http_, "/metrics").has("tracesmith_http_event_streams 50"));
  master_->signal(SIGTERM);  // nobody keeps it from stopping
  EXPECT_EQ(master_->wait().rc, 0);
}

TEST_F(ClusterApi, APortInUseIsSaid) {
  serveMaster();
  const Output o = test::tracesmith(
      {"cluster", "master", "--port", "0", "--http-port", std::to_string(http_), "--data-dir", dir_ / "second"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "the port is in use")) << o.err;
}

}  // namespace
}  // namespace tracesmith::server
