// Time that one role loses while another works.
#include <gtest/gtest.h>

#include "analysis/written_trace.hpp"

namespace tracesmith::analysis {
namespace {

using trace::EventType;

constexpr int64_t kMs = 1'000'000;

class Roles : public testing::Test {
 protected:
  void process(int64_t pid, const char* role) {
    trace::ProcessRow p;
    p.node = node_;
    p.pid = pid;
    if (role) p.role = t_.string(role);
    t_.add(p);
  }
  void event(int64_t pid, EventType type, const char* name, int64_t from_ms, int64_t to_ms) {
    trace::EventRow e;
    e.ts = from_ms * kMs;
    e.dur = (to_ms - from_ms) * kMs;
    e.type = static_cast<int64_t>(type);
    e.name = t_.string(name);
    e.node = node_;
    e.pid = pid;
    if (type == EventType::kernel) e.device = e.stream = pid;
    t_.add(e);
  }
  void kernel(int64_t pid, const char* name, int64_t from_ms, int64_t to_ms) {
    event(pid, EventType::kernel, name, from_ms, to_ms);
  }

  WrittenTrace t_;
  int64_t node_ = t_.string("n0");
};

TEST_F(Roles, TimeIsSharedOutByWhoWorksMeanwhile) {
  process(1, "trainer"), process(2, "trainer"), process(3, "rollout");
  for (int64_t cycle = 0; cycle < 500; cycle += 100) {
    kernel(3, "decode", cycle, cycle + 60);
    kernel(1, "ncclDevKernel_Broadcast_RING_LL", cycle, cycle + 60);  // waits for the weights: no work
    kernel(1, "gemm", cycle + 60, cycle + 90);
    kernel(2, "gemm", cycle + 60, cycle + 80);
  }
  const Analysis a = t_.analyzed();
  ASSERT_EQ(a.roles.size(), 2u);
  const RoleResult &rollout = a.roles[0], &trainer = a.roles[1];
  EXPECT_EQ(rollout.role, "rollout");
  EXPECT_EQ(rollout.processes, 1);
  EXPECT_NEAR(rollout.works_pct, 100 * 300 / 490.0, 0.01);
  EXPECT_EQ(trainer.processes, 2);
  EXPECT_NEAR(trainer.works_pct, 100 * 125 / 490.0, 0.01);
  EXPECT_NEAR(trainer.own_pct, 100 * 25 / 490.0, 0.01);
  ASSERT_EQ(trainer.waits.size(), 2u);
  EXPECT_EQ(trainer.waits[0].working, "rollout");
  EXPECT_NEAR(trainer.waits[0].pct, 100 * 300 / 490.0, 0.01);
  EXPECT_EQ(trainer.waits[1].working, "");
  EXPECT_NEAR(trainer.waits[1].pct, 100 * 40 / 490.0, 0.01);
  ASSERT_FALSE(a.notes.empty());
  EXPECT_EQ(a.notes.back(), "between roles: for 61 % of the time no trainer process worked while rollout did");
}

TEST_F(Roles, AProcessWithoutADeviceWorksInItsRanges) {
  process(1, "data"), process(2, "trainer"), process(3, nullptr);
  event(1, EventType::annotation, "decode images", 0, 50);
  event(1, EventType::annotation, "wait for the queue", 50, 100);
  kernel(2, "gemm", 50, 100);
  kernel(3, "somebody else's", 0, 100);
  const Analysis a = t_.analyzed();
  ASSERT_EQ(a.roles.size(), 2u);
  EXPECT_NEAR(a.roles[0].works_pct, 50, 0.01);
  EXPECT_NEAR(a.roles[1].works_pct, 50, 0.01);
}

TEST_F(Roles, OneRoleIsNoTable) {
  process(1, "trainer"), process(2, "trainer");
  kernel(1, "gemm", 0, 50);
  EXPECT_TRUE(t_.analyzed().roles.empty());
}

}  // namespace
}  // namespace tracesmith::analysis
