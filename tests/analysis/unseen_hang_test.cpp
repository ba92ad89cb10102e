// Hangs in watch mode: operations between windows, whose end is not seen.
#include "analysis/hang_fixture.hpp"

namespace tracesmith::analysis::live {
namespace {

/// In watch mode the GPU is recorded in windows only: of what is launched between them nobody sees the end.
class UnseenHang : public Hang {
 protected:
  UnseenHang() {
    for (int r = 0; r < 4; ++r) rank(r).steps = {{1, kS / 2, {}}};
  }
  void launch(int r, uint64_t seq) {
    enter(r, "all_reduce", seq);
    rank(r).in_flight.back().unseen = true;
    rank(r).in_flight.back().before = static_cast<uint32_t>(rank(r).in_flight.size() - 1);
  }
};

TEST_F(UnseenHang, WhatAllHaveLaunchedIsNoHangHoweverLongAgo) {
  for (int r = 0; r < 4; ++r)
    for (uint64_t seq : {11, 12, 13}) launch(r, seq);
  EXPECT_EQ(pass(600).state, HangState::ok) << "a checkpoint: it may have ended long ago";
  EXPECT_TRUE(alerts_.empty());
}

/// All ranks inside a step, in what all have launched.
class Standstill : public UnseenHang {
 protected:
  Standstill() {
    for (int r = 0; r < 4; ++r) {
      for (uint64_t seq : {11, 12, 13}) launch(r, seq);
      rank(r).step = 5;
      rank(r).quiet_ns.reset();
    }
  }
  void gpus(double percent) {
    for (NodeReport& n : nodes_) n.gpus = {{0, "H100", false, {{"gpu_utilization_percent", percent}}}};
  }
  void leaveSteps() {
    for (int r = 0; r < 4; ++r) rank(r).step.reset();
  }
};

TEST_F(Standstill, OfAllRanksInsideAStepIsAHangInWhichNobodyIsMissing) {
  EXPECT_EQ(pass(9).state, HangState::ok);
  const HangVerdict v = pass(3);
  EXPECT_EQ(v.state, HangState::hang);
  EXPECT_TRUE(v.culprits.empty()) << "nobody is to blame";
  EXPECT_NE(v.verdict.find("all 4 ranks have launched all_reduce 13 of world"), std::string::npos) << v.verdict;
  EXPECT_NE(v.verdict.find("nobody is missing, suspect a GPU or a link"), std::string::npos) << v.verdict;
  EXPECT_EQ(v.since_ns, 1000 * kS);
  ASSERT_EQ(v.communicators.size(), 1u);
  EXPECT_EQ(v.communicators[0].entered, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_TRUE(v.communicators[0].missing.empty());
  ASSERT_EQ(alerts_.size(), 1u);
  EXPECT_EQ(alerts_[0].kind, AlertKind::hang);
  gpus(100);
  EXPECT_GT(pass(1).confidence, v.confidence) << "they are at something";
}

TEST_F(Standstill, IsNoHangWhereGpusAreIdleOrFilesAreWritten) {
  gpus(0);
  EXPECT_EQ(pass(100).state, HangState::ok) << "the hosts are at something";
  gpus(100);
  rank(3).io_bytes_per_s = 1e9;
  EXPECT_EQ(pass(100).state, HangState::ok);
  rank(3).io_bytes_per_s = 0;
  EXPECT_EQ(pass(1).state, HangState::hang);
}

TEST_F(Standstill, OutsideStepsIsNoHang) {
  leaveSteps();
  gpus(100);
  EXPECT_EQ(pass(100).state, HangState::ok) << "an evaluation between steps";
}

TEST_F(Standstill, WithoutStepsIsAHangWhereGpusAreBusy) {
  leaveSteps();
  for (int r = 0; r < 4; ++r) rank(r).steps.clear();
  EXPECT_EQ(pass(30).state, HangState::ok);
  gpus(100);
  EXPECT_EQ(pass(29).state, HangState::ok);
  EXPECT_EQ(pass(3).state, HangState::hang);
}

TEST_F(Standstill, ThatEndsByItselfIsRemembered) {
  EXPECT_EQ(pass(20).state, HangState::hang);
  for (int r = 0; r < 4; ++r) {
    rank(r).in_flight.clear();
    launch(r, 14);
  }
  EXPECT_EQ(pass(40).state, HangState::ok) << "this job pauses so long";
  EXPECT_EQ(pass(30).state, HangState::hang);
}

TEST_F(UnseenHang, TheRankThatHasNotLaunchedItIsNamed) {
  for (int r : {0, 1, 3})
    for (uint64_t seq : {11, 12, 13}) launch(r, seq);
  launch(2, 11);
  EXPECT_EQ(pass(1).state, HangState::ok);
  const HangVerdict v = pass(3);
  EXPECT_EQ(v.state, HangState::hang);
  ASSERT_EQ(v.culprits.size(), 1u);
  EXPECT_EQ(v.culprits[0].rank, 2);
  ASSERT_EQ(v.communicators.size(), 1u);
  EXPECT_EQ(v.communicators[0].seq, 12u) << "all have launched 11";
  EXPECT_EQ(v.communicators[0].missing, (std::vector<int32_t>{2}));
}

TEST_F(UnseenHang, RanksMayLaunchAheadOfEachOtherBySomeSteps) {
  for (int r = 0; r < 4; ++r) rank(r).steps = {{1, 4 * kS, {}}};
  for (int r : {0, 1, 3}) launch(r, 11);
  EXPECT_EQ(pass(11).state, HangState::ok);
  EXPECT_EQ(pass(3).state, HangState::hang) << "more than three steps";
}

}  // namespace
}  // namespace tracesmith::analysis::live
