// What a master puts into real ClickHouse servers: the same rows as its own store, once, whoever is killed.
#include <regex>

#include "cluster/cluster_fixture.hpp"
#include "server/http_client.hpp"

namespace tracesmith::cluster {
namespace {

class ClickHouse : public ClusterFixture {
 protected:
  void SetUp() override {
    if (test::run({"sh", "-c", "command -v clickhouse-server"}).rc != 0) GTEST_SKIP() << "ClickHouse is not installed";
    for (Shard& shard : shards_) {
      shard.http = freePort();
      shard.native = freePort();
      shard.folder = dir_ / ("clickhouse" + std::to_string(shard.http));
      ::mkdir(shard.folder.c_str(), 0700);
      test::writeFile(shard.folder + "/users.xml",
                      "<yandex><profiles><default/></profiles><users><default><password></password><networks><ip>"
                      "127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>"
                      "<quotas><default/></quotas></yandex>");
      test::writeFile(shard.folder + "/config.xml",
                      "<yandex><logger><level>error</level><console>1</console></logger><http_port>" +
                          std::to_string(shard.http) + "</http_port><tcp_port>" + std::to_string(shard.native) +
                          "</tcp_port><listen_host>127.0.0.1</listen_host><path>" + shard.folder +
                          "/data/</path><tmp_path>" + shard.folder + "/tmp/</tmp_path><user_files_path>" +
                          shard.folder + "/files/</user_files_path><users_config>" + shard.folder +
                          "/users.xml</users_config><default_profile>default</default_profile><default_database>default"
                          "</default_database><mark_cache_size>67108864</mark_cache_size></yandex>");
      if (!start(shard)) GTEST_SKIP() << "ClickHouse does not start in time: " << shard.server->err();
    }
  }
  struct Shard {
    uint16_t http = 0, native = 0;
    std::string folder;
    std::unique_ptr<Child> server;
  };
  /// False: it does not answer in time, as on a machine that is much too busy.
  static bool start(Shard& shard) {
    return eventually([&] {
      if (!shard.server || !shard.server->running())
        shard.server = std::make_unique<Child>(
            std::vector<std::string>{"clickhouse-server", "--config-file=" + shard.folder + "/config.xml"});
      return server::get(shard.http, "/ping").status == 200;
    });
  }
  std::vector<std::string> flags() const {
    std::string urls;
    for (const Shard& shard : shards_)
      urls += (urls.empty() ? "http://127.0.0.1:" : ",http://127.0.0.1:") + std::to_string(shard.http) +
              "/?native=" + std::to_string(shard.native);
    return {"--clickhouse", urls};
  }
  Output ask(const std::string& store, const std::string& sql) const {
    return command({"query", "--store", store, "--format", "csv", sql});
  }
  /// DuckDB writes 12.0 where ClickHouse writes 12.
  static std::string asIntegers(const std::string& csv) {
    return std::regex_replace(csv, std::regex("([0-9])\\.0(?=[,\n])"), "$1");
  }
  bool allThere() const {
    const std::string status = command({"status", "--json"}).out;
    size_t done = 0;
    for (size_t at = status.find("\"waiting_bytes\":0,\"problem\":null"); at != std::string::npos;
         at = status.find("\"waiting_bytes\":0,\"problem\":null", at + 1))
      ++done;
    return done == 2;
  }

  Shard shards_[2];
};

TEST_F(ClickHouse, HasTheRowsOfTheStoreOnceThoughItAndTheMasterAreKilled) {
  startMaster(flags());
  std::vector<std::unique_ptr<Child>> nodes;
  for (const char* node : {"n1", "n2", "n3", "n4"}) nodes.push_back(agent(node, {"--sim", "1"}));
  ASSERT_TRUE(connected(4));
  ASSERT_EQ(command({"start", "--name", "s"}).rc, 0);
  auto rowsAt = [&](const char* condition) {
    return eventually(
        [&] { return has(ask("clickhouse", "SELECT count(*) > 1000 AS enough FROM events").out, condition); });
  };
  ASSERT_TRUE(rowsAt("1")) << ask("clickhouse", "SELECT count(*) FROM events").err << command({"status"}).err;
  shards_[1].server->signal(SIGKILL);
  (void)shards_[1].server->wait();
  ASSERT_TRUE(eventually([&] { return has(command({"status"}).err, "cannot reach"); }));
  master_->signal(SIGKILL);
  (void)master_->wait();
  startMaster(flags());
  if (!start(shards_[1])) GTEST_SKIP() << "ClickHouse does not start again in time: " << shards_[1].server->err();
  ASSERT_TRUE(connected(4));
  ASSERT_EQ(command({"stop", "--name", "s"}).rc, 0);
  nodes.clear();  // from here on nothing arrives
  std::string tables;
  for (const trace::TableInfo& table : trace::tables()) {
    if (table.name == std::string("sessions")) continue;  // written into what is fetched
    tables += std::string(tables.empty() ? "" : " UNION ALL ") + "SELECT '" + table.name +
              "' AS t, count(*) AS n FROM " + table.name;
  }
  const std::string counts = "SELECT t, n FROM (" + tables + ") AS each ORDER BY t";
  EXPECT_TRUE(eventually([&] { return allThere() && ask("master", counts).out == ask("clickhouse", counts).out; }))
      << ask("master", counts).out << ask("clickhouse", counts).out << command({"status"}).out
      << command({"status"}).err;
  // What both dialects understand, over the same rows.
  for (const std::string sql : {
           "SELECT node, type, count(*) AS n, sum(dur) AS d, min(ts) AS a, max(ts_end) AS b FROM events GROUP BY node, "
           "type ORDER BY node, concat(type, '')",
           "SELECT name, count(*) AS n, max(grid_x) AS x, sum(bytes) AS b FROM events WHERE type = 'kernel' GROUP BY "
           "name ORDER BY name",
           "SELECT node, rank, count(*) AS n, sum(dur) AS d, max(step) AS s FROM steps GROUP BY node, rank ORDER BY "
           "node, rank",
           "SELECT op, comm, count(*) AS n, sum(bytes) AS b, min(seq) AS a, max(seq) AS c FROM collectives GROUP BY "
           "op, comm ORDER BY op, comm",
           "SELECT name, count(*) AS n, min(value) AS a, max(value) AS b FROM metrics GROUP BY name ORDER BY name",
           "SELECT a.rank AS x, count(*) AS n FROM steps AS a GROUP BY x ORDER BY n DESC, x LIMIT 3",
           "SELECT DISTINCT node FROM events ORDER BY node",
           "SELECT count(DISTINCT name) AS names, count(DISTINCT rank) AS ranks FROM events",
           "SELECT count(dur) AS known, count(*) - count(dur) AS unknown FROM collectives",
           "SELECT type, count(*) AS n FROM events WHERE device IS NULL GROUP BY type HAVING count(*) > 10 ORDER BY n "
           "DESC, concat(type, '')",
           "SELECT name, max(dur) AS d FROM events WHERE type = 'kernel' AND name LIKE '%gemm%' GROUP BY name ORDER BY "
           "d DESC, name LIMIT 5",
           "SELECT node, ts, name FROM events WHERE type = 'kernel' ORDER BY ts, node, name, stream LIMIT 20",
           "SELECT rank, step, dur FROM steps WHERE step BETWEEN 2 AND 4 ORDER BY rank, step, node, ts",
           "SELECT count(*) AS n FROM events WHERE type IN ('memcpy', 'memset') AND bytes > 0",
           "SELECT CASE WHEN dur > 100000 THEN 'long' ELSE 'short' END AS kind, count(*) AS n FROM events WHERE type = "
           "'kernel' AND dur > 0 GROUP BY kind ORDER BY kind",
           "SELECT rank % 2 AS odd, sum(dur) AS d FROM steps GROUP BY odd ORDER BY odd",
           "SELECT max(n) AS most, min(n) AS least FROM (SELECT name, count(*) AS n FROM events GROUP BY name) AS each",
           "SELECT count(*) AS n FROM (SELECT node FROM nodes UNION ALL SELECT node FROM devices) AS both_of_them",
           "SELECT node, device, name, memory, sms FROM devices ORDER BY node, device",
           "SELECT node, hostname, cpus, memory, gpus FROM nodes ORDER BY node, memory",
           "SELECT upper(op) AS o, count(*) AS n FROM collectives WHERE NOT (comm = 'world') GROUP BY o ORDER BY o",
           "SELECT coalesce(device, -1) AS d, count(*) AS n FROM events GROUP BY d ORDER BY d",
           "SELECT block_x, registers, shared_static, count(*) AS n FROM events WHERE block_x IS NOT NULL GROUP BY "
           "block_x, registers, shared_static ORDER BY block_x, registers, shared_static",
           "SELECT key, value FROM metadata WHERE length(value) < 50 ORDER BY key, value, node LIMIT 50",
           "SELECT cause, sum(count) AS n FROM losses GROUP BY cause ORDER BY cause",
           "SELECT node, method, count(*) AS n, min(bound_ns) AS b FROM clocks GROUP BY node, method ORDER BY node, "
           "method",
       }) {
    const Output ours = ask("master", sql), theirs = ask("clickhouse", sql);
    EXPECT_EQ(theirs.rc, 0) << theirs.err;
    EXPECT_EQ(ours.rc, 0) << ours.err;
    EXPECT_EQ(asIntegers(ours.out), theirs.out) << sql;
  }
  // Both servers have nodes, each node is on one of them.
  for (const Shard& shard : shards_)
    EXPECT_NE(server::get(shard.http, "/?query=SELECT+count()+FROM+tracesmith.events_rows").body, "0\n");
  const Output bad = ask("clickhouse", "SELECT nothing FROM nowhere");
  EXPECT_EQ(bad.rc, 1);
  EXPECT_TRUE(has(bad.err, "Code: ")) << bad.err;
  EXPECT_EQ(ask("clickhouse", "DROP TABLE tracesmith.events_rows").rc, 1) << "only reading";
  EXPECT_TRUE(has(command({"query", "--store", "clickhouse", "--json", "SELECT 1 AS one"}).out, "[{\"one\":1}]"));
  EXPECT_EQ(command({"query", "--store", "clickhouse", "--name", "s", "SELECT 1"}).rc, 2);
}

}  // namespace
}  // namespace tracesmith::cluster
