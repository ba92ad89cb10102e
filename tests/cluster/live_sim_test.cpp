// Simulated ranks in live reports: they tell what real ones would, so that the watcher takes them for what they play.
#include <map>
#include <set>
#include <thread>

#include "capture/sim/live.hpp"
#include "cluster/agent/live_rings.hpp"
#include "cluster/cluster_fixture.hpp"
#include "cluster/wire/live_convert.hpp"

namespace tracesmith::cluster {
namespace {

class LiveSim : public ClusterFixture {};

TEST_F(LiveSim, ACheckpointThatAllWaitForIsNoHang) {
  startMaster();
  const std::unique_ptr<Child> node =
      agent("alpha", {"--sim", "4", "--sim-ranks", "4", "--fault", "checkpoint=60:8000"});
  std::string json;
  ASSERT_TRUE(eventually([&] {
    json = command({"hang", "--json"}).out;
    return has(json, "\"state\":\"slow\"") || has(json, "\"state\":\"hang\"");
  })) << json;
  EXPECT_TRUE(has(json, "\"culprits\":[{\"rank\":0,\"node\":\"alpha\"")) << json;
  EXPECT_TRUE(has(json, "reads or writes files")) << json;
  ASSERT_TRUE(eventually([&] {
    json = command({"hang", "--json"}).out;
    return has(json, "\"state\":\"ok\"");
  })) << json;
  EXPECT_FALSE(has(json, "\"kind\":\"hang\"")) << json;
}

TEST_F(LiveSim, SendsAndReceivesAreToldByPeer) {
  sim::LiveConfig config;
  config.job.ranks = 4;
  config.job.pipeline = 4;
  config.folder = rings();
  config.host = "here";
  auto job = sim::LiveJob::create(config);
  ASSERT_TRUE(job) << job.status().message();
  std::atomic<bool> stop{false};
  std::thread player([&] { (*job)->run(stop); });
  RingWatch watch(rings(), "here");
  std::map<int, std::set<std::pair<std::string, int32_t>>> seen;  // by rank: operation and peer
  EXPECT_TRUE(eventually([&] {
    for (const auto& p : watch.report())
      for (const auto& c : p.comms)
        for (const auto& t : c.transfers)
          if (t.op == "send" || t.op == "recv") seen[p.rank].insert({t.op, t.peer});
    return seen[0].size() == 2 && seen[1].size() == 4 && seen[2].size() == 4 && seen[3].size() == 2;
  }));
  stop = true;
  player.join();
  using Peers = std::set<std::pair<std::string, int32_t>>;
  EXPECT_EQ(seen[0], (Peers{{"send", 1}, {"recv", 1}}));
  EXPECT_EQ(seen[1], (Peers{{"send", 0}, {"recv", 0}, {"send", 2}, {"recv", 2}}));
}

TEST(LiveMessages, ThePeerOfATransferTravels) {
  analysis::live::NodeReport report;
  analysis::live::CommState c;
  c.transfers = {{"all_reduce", 64, 1, 5, 5}, {"send", 64, 1, 5, 5, 0}};
  report.processes.emplace_back().comms = {c};
  LiveReport message;
  toMessage(report, message);
  const auto back = fromMessage(message).processes.at(0).comms.at(0).transfers;
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].peer, -1);
  EXPECT_EQ(back[1].peer, 0);
}

}  // namespace
}  // namespace tracesmith::cluster
