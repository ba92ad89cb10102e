// The watcher of a cluster: ranks of a job with different software.
#include <gtest/gtest.h>

#include "analysis/live/watcher.hpp"

namespace tracesmith::analysis::live {
namespace {

constexpr int64_t kS = 1'000'000'000;

class Versions : public ::testing::Test {
 protected:
  /// Two nodes with two ranks each, in one job.
  Versions() {
    for (const char* node : {"a", "b"}) {
      installed_[node].node = node;
      reports_[node].node = node;
      for (int r = 0; r < 2; ++r) {
        ProcessReport& p = reports_[node].processes.emplace_back();
        p.pid = 100 + r;
        p.rank = r + (*node == 'b' ? 2 : 0);
        p.comms.push_back({kWorld, "world", p.rank, 4, 0, {}, {}});
      }
    }
  }
  ProcessReport& rank(int r) { return reports_[r < 2 ? "a" : "b"].processes[static_cast<size_t>(r % 2)]; }
  std::vector<std::string> pass(int seconds) {
    std::vector<std::string> texts;
    for (const auto& [name, node] : installed_) watcher_.describe(node);
    for (int i = 0; i < seconds; ++i) {
      now_ns_ += kS;
      for (const auto& [name, report] : reports_) watcher_.take(report, now_ns_);
      for (const Alert& a : watcher_.look(now_ns_))
        if (a.kind == AlertKind::versions_differ) texts.push_back(a.text);
    }
    return texts;
  }
  static constexpr uint64_t kWorld = 0xabc;
  Watcher watcher_;
  std::map<std::string, NodeDescription> installed_;
  std::map<std::string, NodeReport> reports_;
  int64_t now_ns_ = 1000 * kS;
};

TEST_F(Versions, WhatIsNotKnownDiffersFromNothing) {
  installed_["a"].driver = "550.54";
  rank(0).torch = "2.3.0";
  rank(1).nccl = "2.21.5";
  EXPECT_TRUE(pass(20).empty());
}

TEST_F(Versions, OfRanksAreToldOnceWithTheRanks) {
  for (int r = 0; r < 4; ++r) rank(r).nccl = r < 3 ? "2.21.5" : "2.19.3";
  const std::vector<std::string> texts = pass(60);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(texts[0], "versions differ in a job of 4 ranks: NCCL 2.19.3 on rank 3, 2.21.5 on ranks 0-2");
}

TEST_F(Versions, OfNodesAreComparedWhereRanksSayNothing) {
  installed_["a"].driver = "550.54";
  installed_["b"].driver = "535.161";
  installed_["a"].nccl = "2.21.5";
  installed_["b"].nccl = "2.19.3";
  for (int r = 0; r < 4; ++r) rank(r).nccl = "2.22.3";  // they bring their own
  const std::vector<std::string> texts = pass(20);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(texts[0], "versions differ in a job of 4 ranks: driver 535.161 on node b, 550.54 on node a");
}

TEST_F(Versions, ThatDifferInAnotherWayAreToldAgain) {
  rank(0).torch = "2.3.0";
  rank(3).torch = "2.4.0";
  EXPECT_EQ(pass(20).size(), 1u);
  reports_["b"].processes.pop_back();  // a rank that ends is no news
  EXPECT_TRUE(pass(20).empty());
  rank(2).torch = "2.5.0";
  EXPECT_EQ(pass(20).size(), 1u);
}

TEST_F(Versions, OfTwoJobsAreNotCompared) {
  for (int r = 0; r < 4; ++r) {
    rank(r).torch = r < 2 ? "2.3.0" : "2.4.0";
    rank(r).comms[0].comm = r < 2 ? 1 : 2;
  }
  EXPECT_TRUE(pass(20).empty());
}

}  // namespace
}  // namespace tracesmith::analysis::live
