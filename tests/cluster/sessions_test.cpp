// Sessions as users see them: recorded, overlapping, named, recovered.
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "cluster/cluster_fixture.hpp"
#include "support/training_ring.hpp"
#include "trace/clocks.hpp"

namespace tracesmith::cluster {
namespace {

using Sessions = ClusterFixture;

TEST_F(Sessions, ARecordingOfTwoNodesIsOneTrace) {
  startMaster();
  auto a = agent("alpha", {"--sim", "2"}), b = agent("beta", {"--sim", "2"});
  ASSERT_TRUE(connected(2));
  const Output o = command({"record", "-o", dir_ / "r.sbt", "-d", "0.6"});
  ASSERT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "complete")) << o.out;
  const auto events = test::rows(dir_ / "r.sbt", "events");
  for (const char* node : {"alpha", "beta"})
    EXPECT_GT(std::count_if(events.begin(), events.end(), [&](const test::Row& r) { return r.s("node") == node; }), 100)
        << node;
  EXPECT_EQ(test::rows(dir_ / "r.sbt", "devices").size(), 4u) << "each GPU once";
  EXPECT_EQ(test::rows(dir_ / "r.sbt", "sessions").size(), 1u);
  EXPECT_TRUE(test::losses(dir_ / "r.sbt").empty());
}

TEST_F(Sessions, OneSimulatedJobRunsOnSeveralNodes) {
  startMaster();
  const std::string start = std::to_string(::time(nullptr));
  auto part = [&](const char* node, const char* first) {
    return agent(node, {"--sim", "2", "--sim-ranks", "4", "--sim-first-rank", first, "--sim-start", start, "--fault",
                        "slow-gpu=3:1.5"});
  };
  auto a = part("alpha", "0"), b = part("beta", "2");
  ASSERT_TRUE(connected(2));
  ASSERT_EQ(command({"record", "-o", dir_ / "r.sbt", "-d", "2"}).rc, 0);
  std::map<std::pair<std::string, int64_t>, std::set<int64_t>> operations;
  for (const test::Row& c : test::rows(dir_ / "r.sbt", "collectives"))
    if (c.i("group_size") == 4) operations[{c.s("op"), c.i("seq")}].insert(c.i("rank"));
  const auto whole =
      std::count_if(operations.begin(), operations.end(), [](const auto& o) { return o.second.size() == 4; });
  EXPECT_GT(whole, static_cast<long>(operations.size() / 2)) << "operations meet on both nodes";
  const Output o = test::run({TRACESMITH_BIN, "analyze", dir_ / "r.sbt"});
  EXPECT_TRUE(o.out.starts_with("rank 3 on beta cost the job")) << o.out;
  // Of collectives that ran when it began only the kernels are there: they meet nobody.
  EXPECT_FALSE(has(o.out, "clock fault")) << o.out;
  EXPECT_TRUE(has(o.err, "simulated")) << o.err;
}

/// Two roles, each on a node of its own with ranks 0 and 1.
TEST_F(Sessions, RolesThatCountTheirRanksAlikeOnTwoNodesAreNotMixed) {
  startMaster();
  std::vector<std::unique_ptr<Child>> agents;
  std::vector<std::unique_ptr<test::TrainingRing>> processes;
  for (const char* role : {"trainer", "rollout"}) {
    const std::string folder = dir_ / role;
    ::mkdir(folder.c_str(), 0700);
    wrapper_ = {"env", "TRACESMITH_DIR=" + folder};
    agents.push_back(agent(agents.empty() ? "alpha" : "beta"));  // the first keep their ranks
    for (int rank : {0, 1}) {
      processes.push_back(
          std::make_unique<test::TrainingRing>(folder + "/" + std::to_string(rank) + ".ring", rank, role));
      processes.back()->writer().header().pid = 1000 + static_cast<int64_t>(processes.size());
    }
  }
  ASSERT_TRUE(connected(2));
  ASSERT_EQ(command({"start", "--name", "roles"}).rc, 0);
  const int64_t ms = 1'000'000, begin = rawClock();
  for (size_t i = 0; i < processes.size(); ++i) {  // trainers work for 10 ms, then rollouts for 30 ms
    const auto from = static_cast<uint64_t>(begin + (i < 2 ? 0 : 10 * ms)), to = from + (i < 2 ? 10 * ms : 30 * ms);
    processes[i]->write(ring::RangeRecord{.name = {processes[i]->writer().intern("work")}, .start = from, .end = to});
    processes[i]->write(ring::StepRecord{.step = 0, .start = from, .end = to});
  }
  ASSERT_TRUE(eventually([&] { return rawClock() > begin + 50 * ms; }));
  ASSERT_EQ(command({"stop", "--name", "roles", "-o", dir_ / "r.sbt"}).rc, 0);
  std::set<std::string> who;
  for (const test::Row& r : test::rows(dir_ / "r.sbt", "processes"))
    who.insert(r.s("role") + " " + std::to_string(r.i("pid")) + " " +
               (r.i("rank") == trace::kNull ? "none" : std::to_string(r.i("rank"))));
  EXPECT_EQ(who, (std::set<std::string>{"rollout 1003 none", "rollout 1004 none", "trainer 1001 0", "trainer 1002 1"}));
  for (const char* table : {"events", "steps"})
    for (const test::Row& r : test::rows(dir_ / "r.sbt", table))
      EXPECT_EQ(r.i("rank") == trace::kNull, r.s("node") == "beta") << table;
  const std::string json = test::run({TRACESMITH_BIN, "analyze", "--json", dir_ / "r.sbt"}).out;
  const size_t at = json.find("\"roles\":");
  ASSERT_NE(at, std::string::npos);
  const std::string roles = json.substr(at, 600);
  const size_t trainer = roles.find("\"trainer\"");
  EXPECT_TRUE(has(roles.substr(0, trainer), "\"processes\":2,\"works_pct\":75")) << roles;
  EXPECT_TRUE(has(roles.substr(trainer), "\"processes\":2,\"works_pct\":25")) << roles;
  EXPECT_TRUE(has(roles.substr(trainer), "{\"working\":\"rollout\",\"pct\":75")) << roles;
}

TEST_F(Sessions, FramesBecomeStatisticsAndAPicture) {
  startMaster();
  auto a = agent("alpha", {"--sim", "2"});
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "watch", "--freq", "50"}).rc, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  ASSERT_EQ(command({"stop", "--name", "watch"}).rc, 0);
  ASSERT_EQ(command({"recover", "--name", "watch", "--export", dir_ / "watch.json"}).rc, 0);
  const Output o =
      test::run({TRACESMITH_BIN, "cluster", "stat", "--data", dir_ / "watch.json", "--plot", dir_ / "watch.svg"});
  if (has(o.err, "install libcairo2")) GTEST_SKIP() << o.err;
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "alpha:0:Simulated H100")) << o.out;
  EXPECT_TRUE(has(test::readFile(dir_ / "watch.svg"), "</svg>"));
  for (const auto& [file, begins] : {std::pair{"watch.pdf", "%PDF-"}, {"watch.png", "\x89PNG\r\n"}}) {
    const Output plot =
        test::run({TRACESMITH_BIN, "cluster", "stat", "--data", dir_ / "watch.json", "--plot", dir_ / file});
    EXPECT_EQ(plot.rc, 0) << plot.err;
    EXPECT_TRUE(test::readFile(dir_ / file).starts_with(begins)) << file;
    EXPECT_GT(test::readFile(dir_ / file).size(), 2000u) << file;
  }
  const Output nowhere = test::run(
      {TRACESMITH_BIN, "cluster", "stat", "--data", dir_ / "watch.json", "--plot", dir_ / "no/such/folder.pdf"});
  EXPECT_EQ(nowhere.rc, 1);
  EXPECT_TRUE(has(nowhere.err, "no/such/folder.pdf")) << nowhere.err;
  const Output wrong =
      test::run({TRACESMITH_BIN, "cluster", "stat", "--data", dir_ / "watch.json", "--plot", dir_ / "watch.gif"});
  EXPECT_EQ(wrong.rc, 2);
  EXPECT_FALSE(test::run({TRACESMITH_BIN, "cluster", "stat", "--data", dir_ / "none.json"}).rc == 0);
}

/// Unix ns of each row by the clock of its node, as sessions are cut by it.
std::vector<int64_t> times(const std::string& path, const std::string& table) {
  auto reader = trace::Reader::open(path);
  EXPECT_TRUE(reader) << reader.status().message();
  auto clocks = trace::readClocks(**reader);
  EXPECT_TRUE(clocks) << clocks.status().message();
  for (auto& [node, clock] : *clocks) clock.preferLater();
  std::vector<int64_t> all;
  for (const test::Row& row : test::rows(path, table)) all.push_back((*clocks)[row.s("node")].toReference(row.i("ts")));
  return all;
}

TEST_F(Sessions, OverlappingSessionsGetExactlyTheirInterval) {
  startMaster();
  auto a = agent("alpha", {"--sim", "1"});
  ASSERT_TRUE(connected(1));
  for (const char* name : {"outer", "inner", "last"}) {
    ASSERT_EQ(command({"start", "--name", name}).rc, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  const Output again = command({"start", "--name", "outer"});
  EXPECT_EQ(again.rc, 1);
  EXPECT_TRUE(has(again.err, "already recording")) << again.err;
  for (const char* name : {"inner", "outer", "last"}) {
    const Output o = command({"stop", "--name", name, "-o", dir_ / (std::string(name) + ".sbt")});
    ASSERT_EQ(o.rc, 0) << o.err;
    EXPECT_TRUE(has(o.out, "complete")) << o.out;
  }
  EXPECT_EQ(command({"stop", "--name", "inner"}).rc, 1);
  EXPECT_TRUE(has(command({"stop"}).err, "no session is recording"));
  for (const char* name : {"inner", "outer", "last"}) {
    const std::string trace = dir_ / (std::string(name) + ".sbt");
    const test::Row session = test::rows(trace, "sessions").at(0);
    const int64_t from = session.i("ts_start"), to = session.i("ts_end");
    std::vector<int64_t> event = times(trace, "events");
    ASSERT_GT(event.size(), 100u) << name;
    const int64_t slack = 1000;  // where two clock models meet
    // Rows that overlap the interval belong to it; starts may lie before it by a step at most.
    for (int64_t t : event) {
      EXPECT_LT(t, to + slack) << name;
      EXPECT_GT(t, from - 1'000'000'000) << name;
    }
    for (int64_t t : times(trace, "metrics")) EXPECT_TRUE(t >= from - slack && t < to + slack) << name;
    std::sort(event.begin(), event.end());
    EXPECT_LT(event.front(), from + 200'000'000) << "nothing is missing at its start";
    EXPECT_GT(event.back(), to - 200'000'000) << "nor at its end";
  }
}

TEST_F(Sessions, NamesThatAreNoNamesAreRefused) {
  startMaster();
  for (const char* name : {"../../x", "a/b", "", "a b", ".hidden", "x\ny"}) {
    if (!*name) continue;
    const Output o = command({"start", "--name", name});
    EXPECT_EQ(o.rc, 1) << name;
    EXPECT_TRUE(has(o.err, "is not a name")) << o.err;
  }
  EXPECT_EQ(command({"start", "--name", std::string(65, 'a')}).rc, 1);
  EXPECT_EQ(command({"start", "--name", "fine-1.2_x"}).rc, 0);
}

TEST_F(Sessions, TheLastSecondsAreThereWithoutHavingRecorded) {
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  auto j = job(1000, 100000);
  ASSERT_EQ(j->wait().rc, 0);
  const Output o = command({"record", "-o", dir_ / "last.sbt", "--last", "60"});
  ASSERT_EQ(o.rc, 0) << o.err;
  expectAllOnce(dir_ / "last.sbt", 1000);
}

TEST_F(Sessions, ASessionSurvivesItsMasterAndGoesOn) {
  startMaster();
  auto a = agent("alpha", {"--sim", "1"});
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "week"}).rc, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  master_->signal(SIGKILL);
  master_->wait();
  startMaster();
  ASSERT_TRUE(connected(1));
  EXPECT_TRUE(has(command({"recover", "--list"}).out, "week"));
  EXPECT_EQ(command({"recover", "--name", "week"}).rc, 0);
  ASSERT_EQ(command({"stop", "--name", "week"}).rc, 0);
  const Output o = command({"recover", "--name", "week", "--export", dir_ / "week.json"});
  ASSERT_EQ(o.rc, 0) << o.err;
  const std::string json = test::readFile(dir_ / "week.json");
  EXPECT_TRUE(has(json, "\"session_name\":\"week\""));
  EXPECT_TRUE(has(json, "\"gpu_id\":[\"alpha:0:Simulated H100\"]")) << json.substr(0, 400);
}

TEST_F(Sessions, MistakesAreOneClearLine) {
  EXPECT_TRUE(has(command({"status"}).err, "cannot reach the master at " + address()));
  startMaster();
  EXPECT_TRUE(has(command({"record", "-o", dir_ / "x.sbt", "-d", "1"}).err, "no healthy node"));
  EXPECT_FALSE(test::exists(dir_ / "x.sbt"));
  const Output busy =
      test::tracesmith({"cluster", "master", "--port", std::to_string(port_), "--data-dir", dir_ / "other"});
  EXPECT_EQ(busy.rc, 1);
  EXPECT_TRUE(has(busy.err, "cannot listen on")) << busy.err;
  const Output same = test::tracesmith({"cluster", "master", "--port", "0", "--data-dir", dir_ / "m"});
  EXPECT_TRUE(has(same.err, "another master is using")) << same.err;
  EXPECT_TRUE(has(command({"recover", "--name", "nobody"}).err, "there is no session nobody"));
  EXPECT_EQ(command({"recover"}).rc, 2);
  EXPECT_EQ(command({"add-node", "--address", "127.0.0.1:1"}).rc, 1);
}

TEST_F(Sessions, AnAgentThatWasAddedComesBackByItself) {
  startMaster();
  const std::string port = std::to_string(freePort());
  const std::vector<std::string> argv = {TRACESMITH_BIN, "cluster",  "agent",     "--port", port,
                                         "--data-dir",   dir_ / "a", "--node-id", "added"};
  auto a = std::make_unique<Child>(argv, environment());
  ASSERT_TRUE(eventually([&] { return has(a->out(), "listens"); }));
  const Output o = command({"add-node", "--address", "127.0.0.1:" + port});
  ASSERT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "added"));
  ASSERT_TRUE(connected(1));
  a->signal(SIGKILL);
  a->wait();
  ASSERT_TRUE(connected(0));
  a = std::make_unique<Child>(argv, environment());
  EXPECT_TRUE(connected(1));
}

/// A session may be shorter than the time between two checkpoints, and its segment may still be open when it is
/// deleted.
TEST_F(Sessions, OfADeletedSessionNothingIsLeftAndAShortOneBesideItStays) {
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  auto left = [&](const std::string& folder, const std::string& ending) {
    std::set<std::string> all;
    for (const auto& file : std::filesystem::directory_iterator(dir_ / ("m/master/" + folder)))
      if (file.path().extension() == ending) all.insert(file.path());
    return all;
  };
  ASSERT_EQ(command({"record", "-o", dir_ / "r.sbt", "-d", "0.1", "--name", "short"}).rc, 0);
  const std::set<std::string> kept = left("nodes/alpha", ".sbt");
  ASSERT_EQ(kept.size(), 1u);
  ASSERT_EQ(command({"record", "-o", dir_ / "s.sbt", "-d", "0.1", "--name", "gone"}).rc, 0);
  ASSERT_EQ(command({"delete", "--name", "gone"}).rc, 0);
  master_.reset();  // a master that was started again remembers
  startMaster();
  EXPECT_TRUE(eventually([&] { return left("nodes/alpha", ".sbt") == kept; }));
  EXPECT_TRUE(eventually([&] { return left("sessions", ".deleted").empty(); }));
  EXPECT_EQ(command({"recover", "--name", "short", "--export", dir_ / "short.sbt"}).rc, 0);
  ASSERT_EQ(command({"delete", "--name", "short"}).rc, 0);
  EXPECT_TRUE(eventually([&] { return left("nodes/alpha", ".sbt").empty(); }));
}

TEST_F(Sessions, ADeletedSessionIsGoneWithTheDataOnlyItNeeded) {
  startMaster();
  auto one = agent("one", {"--sim", "1", "--segment-bytes", "65536"});
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "keep"}).rc, 0);
  EXPECT_TRUE(has(command({"delete", "--name", "keep"}).err, "is recording: stop it first"));
  ASSERT_EQ(command({"stop", "--name", "keep"}).rc, 0);
  for (const char* name : {"gone", "twice", "twice"})
    ASSERT_EQ(command({"record", "--force", "-o", dir_ / "r.sbt", "-d", "1", "--name", name}).rc, 0);
  const Output deleted = command({"delete", "--name", "gone", "--json"});
  EXPECT_EQ(deleted.rc, 0) << deleted.err;
  EXPECT_FALSE(has(deleted.out, "\"freed_bytes\":0}")) << deleted.out;
  EXPECT_FALSE(has(command({"sessions"}).out, "gone"));
  EXPECT_TRUE(has(command({"delete", "--name", "gone"}).err, "there is no session gone"));
  EXPECT_TRUE(has(command({"delete", "--name", "twice"}).err, "2 sessions are named twice"));
  EXPECT_EQ(command({"recover", "--name", "keep", "--export", dir_ / "keep.sbt"}).rc, 0);

  EXPECT_TRUE(has(command({"remove-node", "--node", "one"}).err, "is connected: stop its agent first"));
  one->signal(SIGTERM);
  one->wait();
  ASSERT_TRUE(eventually([&] { return command({"remove-node", "--node", "one"}).rc == 0; }));
  for (int start = 0; start < 2; ++start) {  // also after a restart of the master
    EXPECT_FALSE(has(command({"nodes"}).out, "one"));
    EXPECT_FALSE(has(command({"sessions"}).out, "gone"));
    master_.reset();
    startMaster();
  }
  EXPECT_EQ(command({"recover", "--name", "keep", "--export", dir_ / "again.sbt"}).rc, 0) << "its data stays";
}

}  // namespace
}  // namespace tracesmith::cluster
