// Operations between windows of watch mode, timed by CUDA events.
#include "capture/nccl_fixture.hpp"

namespace tracesmith {
namespace {

TEST_F(NcclTest, BetweenWindowsOperationsAreTimedByEvents) {
  const Output o = run({"events"}, {"--mode", "watch", "--window", "2/100", "--nccl-times", "events"});
  ASSERT_EQ(o.rc, 0) << o.err;
  std::map<int64_t, std::pair<int64_t, int64_t>> ran;  // by elements
  std::istringstream in(o.out);
  for (int64_t count, start, end; in >> count >> start >> end;) ran[count] = {start, end};
  std::map<int64_t, std::vector<Row>> by_count;
  for (const Row& c : collectives()) by_count[c.i("elements")].push_back(c);
  for (const int64_t count : {1, 2, 3, 4, 5, 10}) {
    ASSERT_EQ(by_count[count].size(), 1u) << count;
    const Row& c = by_count[count][0];
    ASSERT_TRUE(timedByEvents(c)) << count;
    EXPECT_LE(std::abs(c.i("ts") - ran[count].first), boundOf(c)) << "on our clock, within the error told";
    EXPECT_NEAR(static_cast<double>(c.i("dur")), static_cast<double>(ran[count].second - ran[count].first), 1000);
    EXPECT_GE(c.i("dur"), 2'999'000) << "what it took the GPU, not the host";
    EXPECT_TRUE(c.null("correlation")) << "there is no kernel";
    EXPECT_FALSE(c.null("ts_enqueue"));
  }
  ASSERT_EQ(by_count[6].size(), 2u);
  EXPECT_TRUE(timedByEvents(by_count[6][0]));
  EXPECT_EQ(by_count[6][0].i("ts"), by_count[6][1].i("ts")) << "of one launch";
  ASSERT_EQ(by_count[8].size(), 1u);
  expectInFlight(by_count[8][0]);
  ASSERT_EQ(by_count[9].size(), 1u);
  EXPECT_FALSE(timedByEvents(by_count[9][0])) << "in a window CUPTI knows better";
  expectKernel(by_count[9][0], kernels());
  ASSERT_EQ(by_count[11].size(), 1u);
  expectInFlight(by_count[11][0]);
  EXPECT_TRUE(losses(trace()).empty());
}

TEST_F(NcclTest, EventsThatCostMoreThanTheBudgetAreStopped) {
  const std::vector<std::string> flags = {"--mode",       "watch",  "--window", "2/20",
                                          "--nccl-times", "events", "--budget", "60%"};
  const Output o = run({"event steps"}, flags, {{"FAKE_EVENT_US", "3000"}});
  ASSERT_EQ(o.rc, 0) << o.err;
  EXPECT_NE(o.err.find("costs more than the budget: it was stopped"), std::string::npos) << o.err;
  std::map<int64_t, bool> timed;
  for (const Row& c : collectives()) timed[c.i("seq")] = timedByEvents(c);
  EXPECT_EQ(timed.size(), 200u);
  EXPECT_TRUE(timed[10]);
  EXPECT_FALSE(timed[195]);
}

TEST_F(NcclTest, WithoutBeingAskedNothingIsTimedByEvents) {
  const Output o = run({"events"}, {"--mode", "watch", "--window", "2/100"});
  ASSERT_EQ(o.rc, 0) << o.err;
  for (const Row& c : collectives()) EXPECT_FALSE(timedByEvents(c)) << c.i("elements");
}

}  // namespace
}  // namespace tracesmith
