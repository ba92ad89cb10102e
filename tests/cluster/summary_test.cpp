// Sessions that keep only a summary.
#include <filesystem>

#include "cluster/cluster_fixture.hpp"

namespace tracesmith::cluster {
namespace {

class SummarySessions : public ClusterFixture {
 protected:
  static size_t rows(const std::string& trace, const std::string& table) { return test::rows(trace, table).size(); }
  /// Who is to blame for what, as `analyze` says it.
  static std::string blamed(const std::string& trace) {
    const std::string text = test::run({TRACESMITH_BIN, "analyze", trace}).out;
    return text.substr(0, text.find(" cost the job"));
  }
  /// A field of the session of this name.
  std::string field(const std::string& session, const std::string& name) const {
    const std::string all = command({"sessions", "--json"}).out, key = "\"" + name + "\":";
    const size_t at = all.find(key, all.find("\"name\":\"" + session + "\"")) + key.size();
    return all.substr(at, all.find_first_of(",}", at) - at);
  }
};

TEST_F(SummarySessions, AreSmallAndAnalyzedAsTheOthers) {
  startMaster();
  auto a = agent("alpha", {"--sim", "4", "--fault", "slow-gpu=2:1.5"});
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"record", "--name", "whole", "-o", dir_ / "whole.sbt", "-d", "2"}).rc, 0);
  const Output o = command({"record", "--name", "small", "--keep", "summary", "-o", dir_ / "small.sbt", "-d", "2"});
  ASSERT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "complete")) << o.out << o.err;
  EXPECT_EQ(field("small", "keep"), "\"summary\"");
  EXPECT_EQ(field("whole", "keep"), "\"everything\"");
  EXPECT_TRUE(has(command({"sessions"}).out, "summary"));
  const size_t rank_steps = rows(dir_ / "small.sbt", "step_summaries");
  EXPECT_GT(rank_steps, 40u);
  EXPECT_LE(std::stoul(field("small", "bytes")), 3000 * rank_steps) << "on the master's disk";
  EXPECT_LE(std::filesystem::file_size(dir_ / "small.sbt"), 3000 * rank_steps);
  EXPECT_LT(rows(dir_ / "small.sbt", "events"), rows(dir_ / "whole.sbt", "events") / 10);
  EXPECT_EQ(blamed(dir_ / "whole.sbt"), "rank 2 on alpha");
  EXPECT_EQ(blamed(dir_ / "small.sbt"), "rank 2 on alpha");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "a-alpha/agent/spool/pending-0"));
}

/// A summary for weeks, and meanwhile a few seconds of everything: each session has its own rows, and only those.
TEST_F(SummarySessions, GoOnWhileAnotherSessionKeepsEverything) {
  startMaster();
  auto a = agent("alpha", {"--sim", "2"});
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "weeks", "--keep", "summary"}).rc, 0);
  const Output o = command({"record", "-o", dir_ / "whole.sbt", "-d", "1"});
  ASSERT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "complete")) << o.out << o.err;
  ASSERT_EQ(command({"stop", "--name", "weeks", "-o", dir_ / "weeks.sbt"}).rc, 0);
  for (const char* trace : {"whole.sbt", "weeks.sbt"}) {
    std::map<std::pair<int64_t, int64_t>, int> steps;  // by rank and step
    for (const test::Row& r : test::rows(dir_ / trace, "steps")) ++steps[{r.i("rank"), r.i("step")}];
    EXPECT_GT(steps.size(), 20u) << trace;
    for (const auto& [step, times] : steps) EXPECT_EQ(times, 1) << trace << ", step " << step.second;
  }
  EXPECT_EQ(rows(dir_ / "whole.sbt", "step_summaries") + rows(dir_ / "whole.sbt", "event_summaries"), 0u);
  EXPECT_EQ(rows(dir_ / "weeks.sbt", "step_summaries"), rows(dir_ / "weeks.sbt", "steps"));
  EXPECT_LT(rows(dir_ / "weeks.sbt", "events"), rows(dir_ / "whole.sbt", "events") / 10);
}

/// What is in no summary yet outlives the agent, and so does what is half in one.
TEST_F(SummarySessions, LoseNothingWhenTheAgentIsKilled) {
  constexpr int64_t kCount = 250'000;
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "all", "--keep", "summary"}).rc, 0);
  ASSERT_TRUE(eventually([&] { return has(test::readFile(dir_ / "a-alpha/agent/captures"), "summary"); }));
  auto j = job(kCount, 30'000, 1 << 22);
  auto killed = [&] {
    ASSERT_TRUE(eventually([&] { return nodeField("records") > 10'000; }));
    a->signal(SIGKILL);
    a->wait();
    a = agent("alpha");
    ASSERT_TRUE(connected(1));
  };
  killed();
  // Its end must be covered, and so a summary is made up to there.
  ASSERT_EQ(command({"record", "-o", dir_ / "some.sbt", "-d", "0.1"}).rc, 0);
  killed();
  ASSERT_EQ(j->wait().rc, 0);
  const Output o = command({"stop", "--name", "all", "-o", dir_ / "all.sbt"});
  ASSERT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "complete")) << o.out << o.err;
  expectAllOnce(dir_ / "all.sbt", kCount);
  EXPECT_TRUE(test::losses(dir_ / "all.sbt").empty());
}

}  // namespace
}  // namespace tracesmith::cluster
