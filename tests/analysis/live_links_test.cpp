// The watcher of a cluster and the links between stages of a pipeline: sends and receives, told by both their ranks.
#include <gtest/gtest.h>

#include <set>

#include "analysis/live/watcher.hpp"

namespace tracesmith::analysis::live {
namespace {

constexpr int64_t kS = 1'000'000'000;

/// Two stages of a pipeline of two ranks each, on two nodes: 0 sends to 2, 1 to 3, and gradients come back.
class SlowStages : public ::testing::Test {
 protected:
  /// `slow`: factor of what rank 1 sends; `late`: what the receives of rank 3 take longer, because rank 1 is late.
  std::vector<Alert> pass(int seconds, double slow, int64_t late_ns = 0) {
    std::vector<Alert> alerts;
    for (int i = 0; i < seconds; ++i) {
      now_ns_ += kS;
      NodeReport nodes[2];
      for (int r = 0; r < 4; ++r) {
        NodeReport& node = nodes[r / 2];
        node.node = r / 2 ? "b" : "a";
        ProcessReport& p = node.processes.emplace_back();
        p.pid = 100 + r;
        p.rank = r;
        const int stage = r / 2;
        CommState c{0x100u + static_cast<uint64_t>(r % 2), "pp", stage, 2, 0, {}, {}};
        const auto noise = 1000 * (i % 5);
        const double forward = 60e3 * (r % 2 ? slow : 1);
        // Who comes first waits for the other.
        const int64_t waits = stage == 1 ? 400'000 + (r == 3 ? late_ns : 0) : 0;
        c.transfers.push_back(
            {stage ? "recv" : "send", 4 << 20, 8, static_cast<int64_t>(forward) + waits + noise, 0, 1 - stage});
        c.transfers.push_back(
            {stage ? "send" : "recv", 4 << 20, 8, 60'000 + noise + (stage ? 0 : 300'000), 0, 1 - stage});
        p.comms.push_back(c);
      }
      for (int n = 0; n < 2; ++n)
        if (!silent_.contains(n)) watcher_.take(nodes[n], now_ns_);
      for (Alert& a : watcher_.look(now_ns_)) alerts.push_back(std::move(a));
    }
    return alerts;
  }
  Watcher watcher_;
  std::set<int> silent_;  // nodes
  int64_t now_ns_ = 1000 * kS;
};

TEST_F(SlowStages, TheLinkOfTwoRanksIsNamed) {
  EXPECT_TRUE(pass(120, 1).empty());
  const std::vector<Alert> alerts = pass(60, 1.5);
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].kind, AlertKind::slow_link);
  EXPECT_TRUE(alerts[0].text.starts_with("link 1-3 of pp (")) << alerts[0].text;
  EXPECT_NE(alerts[0].text.find("send from 1 on a to 3 on b of 4.194 MB takes 90.00 µs instead of 60.00 µs"),
            std::string::npos)
      << alerts[0].text;
}

TEST_F(SlowStages, ASenderThatComesLateIsNoSlowLink) {
  EXPECT_TRUE(pass(120, 1).empty());
  EXPECT_TRUE(pass(120, 1, 5'000'000).empty());
}

TEST_F(SlowStages, WithoutTheSenderNobodyKnowsWhatAReceiveWaitsFor) {
  silent_ = {0};
  EXPECT_TRUE(pass(120, 1).empty());
  for (const Alert& a : pass(120, 1, 5'000'000)) EXPECT_NE(a.kind, AlertKind::slow_link) << a.text;
}

}  // namespace
}  // namespace tracesmith::analysis::live
