// The watcher of a cluster, played through with small reports: who stands still, who is to blame, what is no hang.
#include "analysis/hang_fixture.hpp"
#include "model/travel_json.hpp"

namespace tracesmith::analysis::live {
namespace {

TEST_F(Hang, NobodyReportsIsUnknown) { EXPECT_EQ(HangDetector().look(kS).state, HangState::unknown); }

TEST_F(Hang, NothingInFlightIsNoHangHoweverLongItLasts) {
  EXPECT_EQ(pass(600).state, HangState::ok);  // a checkpoint, an evaluation on the CPU
  EXPECT_TRUE(alerts_.empty());
}

TEST_F(Hang, TheRankThatDoesNotComeIsNamed) {
  for (int r : {0, 1, 3}) enter(r);
  EXPECT_EQ(pass(1).state, HangState::ok);
  const HangVerdict v = pass(3);
  EXPECT_EQ(v.state, HangState::hang);
  ASSERT_EQ(v.culprits.size(), 1u);
  EXPECT_EQ(v.culprits[0].rank, 2);
  EXPECT_EQ(v.culprits[0].node, "b");
  ASSERT_EQ(v.communicators.size(), 1u);
  EXPECT_EQ(v.communicators[0].entered, (std::vector<int32_t>{0, 1, 3}));
  EXPECT_EQ(v.communicators[0].missing, (std::vector<int32_t>{2}));
  EXPECT_EQ(v.since_ns, 1000 * kS);
  ASSERT_EQ(alerts_.size(), 1u);
  EXPECT_EQ(alerts_[0].kind, AlertKind::hang);
  const std::string json = toJson(model::HangAnswer{v, alerts_});
  EXPECT_NE(json.find("\"state\":\"hang\",\"since\":\"1000000000000\""), std::string::npos) << json;
}

TEST_F(Hang, ANodeThatIsSilentBeyondTheTimeoutIsToldOnceUntilItSpeaks) {
  pass(2);
  silent_.insert("b");
  pass(30);
  EXPECT_TRUE(alerts_.empty());
  pass(30);
  ASSERT_EQ(alerts_.size(), 1u);
  EXPECT_EQ(alerts_[0].kind, AlertKind::silent_node);
  EXPECT_EQ(alerts_[0].text, "node b has been silent for 31.00 s");
  EXPECT_NE(toJson(model::HangAnswer{{}, alerts_}).find("\"kind\":\"silent_node\",\"severity\":\"warning\""),
            std::string::npos);
  silent_.clear();
  pass(1);
  silent_.insert("b");
  pass(31);
  EXPECT_EQ(alerts_.size(), 2u) << "it spoke, and is silent again";
}

TEST_F(Hang, ANodeThatLeftIsNotMissed) {
  pass(2);
  silent_.insert("b");
  watcher_.forget("b");
  pass(60);
  EXPECT_TRUE(alerts_.empty());
}

TEST_F(Hang, AHangThatEndsIsToldOnceAndRemembered) {
  for (int r : {0, 1, 3}) enter(r);
  EXPECT_EQ(pass(6).state, HangState::hang);
  for (int r : {0, 1, 3}) rank(r).in_flight.clear();
  EXPECT_EQ(pass(1).state, HangState::ok);
  ASSERT_EQ(alerts_.size(), 2u);
  EXPECT_EQ(alerts_[1].kind, AlertKind::resolved);
  for (int r : {0, 1, 3}) enter(r, "all_reduce", 12);
  EXPECT_EQ(pass(6).state, HangState::ok) << "this job has waited as long before";
}

TEST_F(Hang, AStoppedProcessIsNamedAsSuch) {
  for (int r : {0, 1, 3}) enter(r);
  rank(2).state = ProcessState::stopped;
  const HangVerdict v = pass(4);
  ASSERT_EQ(v.culprits.size(), 1u);
  EXPECT_EQ(v.culprits[0].rank, 2);
  EXPECT_NE(v.culprits[0].reason.find("stopped"), std::string::npos);
  EXPECT_GE(v.confidence, 0.99);
}

TEST_F(Hang, ADeadProcessIsNamedAsSuch) {
  for (int r : {0, 1, 3}) enter(r);
  rank(2).state = ProcessState::dead;
  const HangVerdict v = pass(4);
  ASSERT_EQ(v.culprits.size(), 1u);
  EXPECT_NE(v.culprits[0].reason.find("died"), std::string::npos);
}

TEST_F(Hang, ASilentNodeIsNamed) {
  pass(1);
  for (int r : {0, 1}) enter(r);
  silent_ = {"b"};
  const HangVerdict v = pass(6);
  EXPECT_EQ(v.state, HangState::hang);
  ASSERT_EQ(v.culprits.size(), 2u);
  for (const Culprit& c : v.culprits) EXPECT_EQ(c.node, "b");
}

TEST_F(Hang, ARankThatIsAtWorkIsSlowAndNoHang) {
  for (int r : {0, 1, 3}) enter(r);
  busy_ = {2};
  const HangVerdict v = pass(20);
  EXPECT_EQ(v.state, HangState::slow);
  ASSERT_EQ(v.culprits.size(), 1u);
  EXPECT_EQ(v.culprits[0].rank, 2);
  EXPECT_TRUE(alerts_.empty());
  pass(60);
  ASSERT_EQ(alerts_.size(), 1u) << "after a minute somebody should know";
  EXPECT_EQ(alerts_[0].kind, AlertKind::slow_rank);
}

TEST_F(Hang, AProcessThatWorksOnItsCpuGetsHalfAMinute) {
  for (int r : {0, 1, 3}) enter(r);
  rank(2).cpu_share = 0.97;
  EXPECT_EQ(pass(20).state, HangState::slow);
  EXPECT_EQ(pass(20).state, HangState::hang);
}

TEST_F(Hang, ARankThatSavesACheckpointForAllIsNoHangHoweverLong) {
  for (int r : {1, 2, 3}) enter(r);
  rank(0).io_bytes_per_s = 3e8;
  rank(0).cpu_share = 0.2;
  const HangVerdict v = pass(300);
  EXPECT_EQ(v.state, HangState::slow);
  ASSERT_EQ(v.culprits.size(), 1u);
  EXPECT_EQ(v.culprits[0].rank, 0);
  EXPECT_NE(v.verdict.find("checkpoint"), std::string::npos) << v.verdict;
  ASSERT_EQ(alerts_.size(), 1u) << "after a minute, for information";
  EXPECT_EQ(alerts_[0].severity, Severity::info);
  // It goes on, and the wait for it has not made the next hang take longer to see.
  rank(0).io_bytes_per_s = 0;
  for (int r : {1, 2, 3}) {
    rank(r).in_flight.clear();
    rank(r).longest_wait_ns = 300 * kS;
  }
  EXPECT_EQ(pass(2).state, HangState::ok);
  for (int r : {1, 2, 3}) {
    rank(r).longest_wait_ns = 0;
    enter(r, "all_reduce", 12);
  }
  EXPECT_EQ(pass(4).state, HangState::hang);
}

TEST_F(Hang, ANodeThatMayBeSilentIsWaitedForBeforeALinkIsBlamed) {
  for (int r : {0, 1, 2, 3}) enter(r);
  pass(1);
  silent_.insert("b");
  EXPECT_NE(pass(2).state, HangState::hang);
  const HangVerdict v = pass(3);
  EXPECT_EQ(v.state, HangState::hang);
  ASSERT_EQ(v.culprits.size(), 2u);
  EXPECT_NE(v.culprits[0].reason.find("silent"), std::string::npos);
}

TEST_F(Hang, WhileItsOwnGpuWorksARankDoesNotWait) {
  for (int r = 0; r < 4; ++r) enter(r);  // launched ahead: the kernels in front of it still run
  busy_ = {0, 1, 2, 3};
  EXPECT_EQ(pass(30).state, HangState::ok);
}

TEST_F(Hang, AnotherOperationIsAMismatch) {
  for (int r : {0, 1, 3}) enter(r);
  enter(2, "all_gather", 5, 8192);
  const HangVerdict v = pass(4);
  EXPECT_EQ(v.state, HangState::hang);
  ASSERT_EQ(v.culprits.size(), 1u);
  EXPECT_EQ(v.culprits[0].rank, 2);
  EXPECT_NE(v.culprits[0].reason.find("all_gather"), std::string::npos);
  EXPECT_NE(v.communicators[0].mismatch.find("all_gather 5"), std::string::npos);
}

TEST_F(Hang, AnotherSizeIsAMismatch) {
  for (int r : {0, 1, 3}) enter(r);
  enter(2, "all_reduce", 11, 2048);
  const HangVerdict v = pass(4);
  ASSERT_EQ(v.culprits.size(), 1u);
  EXPECT_EQ(v.culprits[0].rank, 2);
  EXPECT_NE(v.communicators[0].mismatch.find("sizes differ"), std::string::npos);
}

TEST_F(Hang, WhereAllAreThereNobodyIsBlamedForSure) {
  for (int r = 0; r < 4; ++r) enter(r);
  const HangVerdict v = pass(4);
  EXPECT_EQ(v.state, HangState::hang);
  EXPECT_TRUE(v.culprits.empty());
  EXPECT_LE(v.confidence, 0.5);
}

TEST_F(Hang, BlameIsHandedOnToTheOneEverybodyWaitsForInTheEnd) {
  // Ranks 2 and 3 share another communicator: 3 waits there for 2, and therefore does not come to the world's.
  constexpr uint64_t kPair = 0xdef;
  for (int r : {2, 3}) rank(r).comms.push_back({kPair, "tp", r - 2, 2, 0, {{"all_reduce", 4, 4}}, {}});
  for (int r : {0, 1}) enter(r);
  rank(3).comms[1].ops[0].entered = 5;
  rank(3).in_flight.push_back({"all_reduce", kPair, 5, -1, 64, 9, 0, 0, 0});
  const HangVerdict v = pass(4);
  ASSERT_EQ(v.culprits.size(), 1u);
  EXPECT_EQ(v.culprits[0].rank, 2);
}

TEST_F(Hang, AReceiveWaitsForItsSender) {
  // 0 → 1 → 2 → 3: 3 receives from 2, 2 from 1; 1 does not send.
  for (int r : {2, 3}) transfer(r, "recv", 3, r - 1);
  const HangVerdict v = pass(4);
  EXPECT_EQ(v.state, HangState::hang);
  ASSERT_EQ(v.culprits.size(), 1u);
  EXPECT_EQ(v.culprits[0].rank, 1);
}

TEST_F(Hang, ASendWhoseEndIsNotToldYetIsNotTheNextOne) {
  // 1 has sent 4 to 2, which 2 knows, and does not come to 5. The end of its own kernel is still in CUPTI's buffer.
  transfer(1, "send", 4, 2);
  transfer(2, "recv", 5, 1);
  rank(2).comms[0].ops.push_back({"recv", 5, 4, 1});
  const HangVerdict v = pass(4);
  EXPECT_EQ(v.state, HangState::hang);
  ASSERT_EQ(v.culprits.size(), 1u) << v.verdict;
  EXPECT_EQ(v.culprits[0].rank, 1);
  EXPECT_NE(v.verdict.find("recv 5 from rank 1"), std::string::npos) << v.verdict;
}

TEST_F(Hang, WhatBothSidesLaunchedIsOverThoughNobodySawItEnd) {
  for (uint64_t i : {4, 5}) transfer(2, "recv", i, 1);
  transfer(1, "send", 4, 2);
  const HangVerdict v = pass(4);
  EXPECT_EQ(v.state, HangState::hang);
  ASSERT_EQ(v.culprits.size(), 1u) << v.verdict;
  EXPECT_EQ(v.culprits[0].rank, 1);
  ASSERT_EQ(v.communicators.size(), 1u);
  EXPECT_EQ(v.communicators[0].seq, 5u);
}

TEST_F(Hang, WhatWasSentIsReceivedThoughTheReceiverDoesNotTell) {
  // 1 has seen its send end and waits for 2 to take the next one; 2 stands still and the end of its receive is not
  // told.
  rank(1).comms[0].ops.push_back({"send", 5, 4, 2});
  transfer(1, "send", 5, 2);
  transfer(2, "recv", 4, 1);
  const HangVerdict v = pass(4);
  EXPECT_EQ(v.state, HangState::hang);
  ASSERT_EQ(v.culprits.size(), 1u) << v.verdict;
  EXPECT_EQ(v.culprits[0].rank, 2);
}

TEST_F(Hang, WhatIsLaunchedTogetherWaitsForThePeerThatIsMissingOnly) {
  // 1 exchanges with 0 and 2 in one launch; 2 is there, and so is what it sends; 0 is not.
  transfer(1, "recv", 7, 0);
  transfer(1, "send", 7, 2);
  transfer(1, "recv", 7, 2);
  for (InFlight& f : rank(1).in_flight) f.before = 0;
  transfer(2, "recv", 7, 1);
  transfer(2, "send", 7, 1);
  for (InFlight& f : rank(2).in_flight) f.before = 0;
  for (int r : {2, 3}) enter(r);
  const HangVerdict v = pass(4);
  EXPECT_EQ(v.state, HangState::hang);
  ASSERT_EQ(v.culprits.size(), 1u) << v.verdict;
  EXPECT_EQ(v.culprits[0].rank, 0);
}

TEST_F(Hang, AMemberNobodyReportsIsMissing) {
  nodes_[1].processes.erase(nodes_[1].processes.begin());  // rank 2
  for (int r : {0, 1}) enter(r);
  nodes_[1].processes[0].comms[0].ops[0].entered = 11;
  nodes_[1].processes[0].in_flight.push_back({"all_reduce", kWorld, 11, -1, 4096, 7, 0, 0, 0});
  const HangVerdict v = pass(4);
  ASSERT_EQ(v.culprits.size(), 1u);
  EXPECT_EQ(v.culprits[0].rank, 2);
  EXPECT_NE(v.culprits[0].reason.find("no agent"), std::string::npos);
}

TEST_F(Hang, LateRecordsOfAKernelThatEndedElsewhereAreNoHang) {
  enter(0);  // its GPU's records are late: the others have seen it end
  for (int r : {1, 2, 3}) rank(r).comms[0].ops[0] = {"all_reduce", 11, 11};
  EXPECT_EQ(pass(10).state, HangState::ok);
}

TEST_F(Hang, ThatSomeHaveLeftAGatherDoesNotMeanThatItEnded) {
  // Ranks 1 and 3 have sent their part and gone; the root waits for rank 2, which never came.
  for (int r : {1, 3}) rank(r).comms[0].ops.push_back({"gather", 11, 11});
  enter(0, "gather", 11);
  const HangVerdict v = pass(10);
  EXPECT_EQ(v.state, HangState::hang);
  ASSERT_EQ(v.culprits.size(), 1u) << v.verdict;
  EXPECT_EQ(v.culprits[0].rank, 2);
}

TEST_F(Hang, RecordsThatComeLateDoNotHideWhereARankStands) {
  // As seen on a GPU: rank 2 is stopped before 12. CUPTI keeps the end of 11 in a buffer with a kernel that goes on,
  // but on rank 0, where another buffer began between them.
  rank(0).comms[0].ops[0].completed = 11;
  enter(0, "all_reduce", 12);
  for (int r : {1, 3}) {
    enter(r, "all_reduce", 11);
    enter(r, "all_reduce", 12);
    rank(r).in_flight[1].before = 1;
    rank(r).in_flight[1].wait_ns = -100 * kS;  // not told
  }
  enter(2, "all_reduce", 11);
  const HangVerdict v = pass(5);
  EXPECT_EQ(v.state, HangState::hang);
  ASSERT_EQ(v.culprits.size(), 1u) << v.verdict;
  EXPECT_EQ(v.culprits[0].rank, 2);
  ASSERT_EQ(v.communicators.size(), 1u);
  EXPECT_EQ(v.communicators[0].seq, 12u);
  EXPECT_EQ(v.communicators[0].entered, (std::vector<int32_t>{0, 1, 3}));
}

TEST_F(Hang, WhereNobodySawTheLastOneEndWhoLaunchedLessIsNamed) {
  for (int r = 0; r < 4; ++r) enter(r, "all_reduce", 11);  // over, but CUPTI does not say so on any rank
  for (int r : {0, 1, 3}) {
    enter(r, "all_reduce", 12);
    rank(r).in_flight[1].before = 1;
  }
  const HangVerdict v = pass(5);
  EXPECT_EQ(v.state, HangState::hang);
  ASSERT_EQ(v.culprits.size(), 1u) << v.verdict;
  EXPECT_EQ(v.culprits[0].rank, 2);
  ASSERT_EQ(v.communicators.size(), 1u);
  EXPECT_EQ(v.communicators[0].seq, 12u);
  EXPECT_EQ(v.communicators[0].missing, (std::vector<int32_t>{2}));
}

}  // namespace
}  // namespace tracesmith::analysis::live
