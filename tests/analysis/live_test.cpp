// The watcher of a cluster, played through with small reports: who stands still, who is to blame, what is no hang.
#include "analysis/live/watcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "model/travel_json.hpp"

namespace tracesmith::analysis::live {
namespace {

constexpr int64_t kS = 1'000'000'000;
constexpr uint64_t kWorld = 0xabc;

/// Four ranks on two nodes, all in the same all_reduce of one communicator unless a test says otherwise.
class Hang : public ::testing::Test {
 protected:
  Hang() {
    for (int r = 0; r < 4; ++r) {
      ProcessReport& p = nodes_[r / 2].processes.emplace_back();
      p.pid = 100 + r;
      p.rank = r;
      p.world_size = 4;
      p.quiet_ns = 0;
      p.comms.push_back({kWorld, "world", r, 4, 0, {{"all_reduce", 10, 10}}, {}});
    }
    nodes_[0].node = "a";
    nodes_[1].node = "b";
  }
  ProcessReport& rank(int r) { return nodes_[r / 2].processes[static_cast<size_t>(r % 2)]; }
  /// A rank runs an operation that does not end.
  void enter(int r, const std::string& op = "all_reduce", uint64_t seq = 11, int64_t bytes = 4096) {
    ProcessReport& p = rank(r);
    CommState& c = p.comms[0];
    auto found = std::find_if(c.ops.begin(), c.ops.end(), [&](const OpProgress& o) { return o.op == op; });
    if (found == c.ops.end()) found = c.ops.insert(found, {op, seq, {}});
    found->entered = seq;
    p.in_flight.push_back({op, kWorld, seq, -1, bytes, 7, 0, 0, 0});
  }
  /// A rank sends to another or receives from it, each in a launch of its own.
  void transfer(int r, const std::string& op, uint64_t seq, int peer) {
    ProcessReport& p = rank(r);
    p.in_flight.push_back({op, kWorld, seq, peer, 64, 9, static_cast<uint32_t>(p.in_flight.size()), 0, 0});
  }
  /// Lets time pass: every second a report of every node, in which what stands still gets older.
  HangVerdict pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      now_ns_ += kS;
      for (NodeReport& node : nodes_) {
        for (ProcessReport& p : node.processes) {
          for (InFlight& f : p.in_flight) f.age_ns += kS, f.wait_ns += kS;
          if (p.quiet_ns && !busy_.contains(p.rank)) *p.quiet_ns += kS;
        }
        if (!silent_.contains(node.node)) watcher_.take(node, now_ns_);
      }
      for (Alert& a : watcher_.look(now_ns_)) alerts_.push_back(std::move(a));
    }
    return watcher_.verdict();
  }

  NodeReport nodes_[2];
  std::set<int> busy_;            // their GPUs work
  std::set<std::string> silent_;  // nodes
  Watcher watcher_;
  std::vector<Alert> alerts_;
  int64_t now_ns_ = 1000 * kS;
};

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
  const std::string json = hangJson(v, alerts_);
  EXPECT_NE(json.find("\"state\":\"hang\",\"since\":\"1000000000000\""), std::string::npos) << json;
}

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

TEST_F(Hang, ANodeThatIsSilentBeyondTheTimeoutIsToldOnceUntilItSpeaks) {
  pass(2);
  silent_.insert("b");
  pass(30);
  EXPECT_TRUE(alerts_.empty());
  pass(30);
  ASSERT_EQ(alerts_.size(), 1u);
  EXPECT_EQ(alerts_[0].kind, AlertKind::silent_node);
  EXPECT_EQ(alerts_[0].text, "node b has been silent for 31.00 s");
  EXPECT_NE(hangJson({}, alerts_).find("\"kind\":\"silent_node\",\"severity\":\"warning\""), std::string::npos);
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

/// Steps of a job of eight ranks, half a second each.
class Slow : public ::testing::Test {
 protected:
  std::vector<Alert> pass(int seconds, int slow_rank, double late, double transfer = 1) {
    std::vector<Alert> alerts;
    for (int i = 0; i < 2 * seconds; ++i) {
      now_ns_ += kS / 2;
      NodeReport node;
      node.node = "a";
      for (int r = 0; r < 8; ++r) {
        ProcessReport& p = node.processes.emplace_back();
        p.pid = 100 + r;
        p.rank = r;
        CommState c{kWorld, "world", r, 8, 0, {}, {}};
        // Whoever is late waits less; a step takes as long for all.
        const double wait = 50e6 + (slow_rank >= 0 && r != slow_rank ? late * 500e6 : 0) + 1e5 * ((i + r) % 3);
        c.transfers.push_back({"all_reduce", 1 << 20, 4, static_cast<int64_t>(2e6 * transfer + 1e3 * (i % 5)), 0});
        p.comms.push_back(c);
        p.steps.push_back(
            {step_, static_cast<int64_t>(500e6 + (slow_rank >= 0 ? late * 500e6 : 0)), static_cast<int64_t>(wait)});
      }
      ++step_;
      watcher_.take(node, now_ns_);
      for (Alert& a : watcher_.look(now_ns_)) alerts.push_back(std::move(a));
    }
    return alerts;
  }
  Watcher watcher_;
  int64_t now_ns_ = 1000 * kS, step_ = 0;
};

TEST_F(Slow, AnEvenJobIsQuiet) { EXPECT_TRUE(pass(600, -1, 0).empty()); }

TEST_F(Slow, ARankThatBecomesSlowerIsNamedOnce) {
  EXPECT_TRUE(pass(120, -1, 0).empty());
  const std::vector<Alert> alerts = pass(120, 5, 0.1);
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].kind, AlertKind::slow_rank);
  EXPECT_NE(alerts[0].text.find("rank 5 on a"), std::string::npos) << alerts[0].text;
  EXPECT_TRUE(pass(120, -1, 0).empty()) << "getting well is no alert";
}

TEST_F(Slow, ALinkThatBecomesSlowerIsNamed) {
  EXPECT_TRUE(pass(120, -1, 0).empty());
  const std::vector<Alert> alerts = pass(60, -1, 0, 1.5);
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].kind, AlertKind::slow_link);
}

TEST(ChangeDetector, TakesNoNoiseForAChange) {
  ChangeDetector d(0.05, true);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(d.add(100 + i * 7919 % 13, i));
  std::optional<Change> found;
  for (int i = 1000; i < 1010 && !found; ++i) found = d.add(180 + i * 7919 % 13, i);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->t_ns, 1000);
}

TEST(ChangeDetector, SeesASmallChangeInNoiseInTheEnd) {
  // Noise of ± 6 around 100, and 5 more: too little for three values, enough for some more.
  ChangeDetector d(0.02, true);
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(d.add(100 + i * 7919 % 13, i));
  std::optional<Change> found;
  int at = 200;
  for (; at < 260 && !found; ++at) found = d.add(108 + at * 7919 % 13, at);
  ASSERT_TRUE(found);
  EXPECT_GT(at, 203);
  EXPECT_NEAR(found->after - found->before, 8, 4);
}

TEST(ChangeDetector, PausesInSomeValuesAreNoChange) {
  ChangeDetector d(0.02, true);
  uint64_t random = 1;
  for (int i = 0; i < 5000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    EXPECT_FALSE(d.add((random >> 40) % 5 == 0 ? 200 : 100 + static_cast<double>(i % 3), i)) << i;
  }
}

}  // namespace
}  // namespace tracesmith::analysis::live
