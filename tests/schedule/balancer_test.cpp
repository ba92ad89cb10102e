#include "schedule/balancer.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "schedule/coordinator.hpp"
#include "schedule/follower.hpp"
#include "support/process.hpp"

namespace tracesmith::schedule {
namespace {

using Batches = std::vector<int64_t>;

/// Ranks whose sample takes so many seconds.
class Balance : public ::testing::Test {
 protected:
  void begin(BalancerConfig config, std::vector<double> seconds) {
    seconds_ = std::move(seconds);
    config.ranks = static_cast<int64_t>(seconds_.size());
    Result<Balancer> made = Balancer::create(config);
    ASSERT_TRUE(made) << made.status().message();
    balancer_.emplace(std::move(*made));
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i, ++step_) {
      const Plan& plan = balancer_->plan();
      double wall = 0;
      for (size_t r = 0; r < seconds_.size(); ++r)
        wall = std::max(wall, seconds_[r] * static_cast<double>(plan.ranks[r].batch));
      for (size_t r = 0; r < seconds_.size(); ++r) {
        const int64_t batch = plan.ranks[r].batch;
        ASSERT_TRUE(
            balancer_->add(static_cast<int64_t>(r), {step_, batch, seconds_[r] * static_cast<double>(batch), wall}));
      }
    }
  }
  std::optional<Plan> propose() {
    const Result<std::optional<Plan>> plan = balancer_->propose(step_);
    EXPECT_TRUE(plan) << plan.status().message();
    return plan ? *plan : std::nullopt;
  }

  std::optional<Balancer> balancer_;
  std::vector<double> seconds_;
  int64_t step_ = 0;
};

TEST_F(Balance, ProposesWhatPaysAndSaysWhy) {
  begin({.total = 96}, {0.01, 0.01, 0.02});
  EXPECT_EQ(balancer_->plan().batches(), (Batches{32, 32, 32}));
  steps(3);
  EXPECT_FALSE(propose());  // not measured enough
  steps(1);
  const std::optional<Plan> plan = propose();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->batches(), (Batches{39, 38, 19}));
  EXPECT_NEAR(plan->before_s, 0.64, 1e-9);
  EXPECT_NEAR(plan->after_s, 0.39, 1e-9);
  EXPECT_EQ(plan->reason,
            "Rank 2 needs 0.64 s for its batch and rank 0 0.32 s: with other batches a step takes 0.39 s instead of "
            "0.64 s (39 % less).");
  EXPECT_FALSE(propose());  // one at a time
  balancer_->inForce(*plan, step_);
  steps(30);
  EXPECT_FALSE(propose());
  ASSERT_EQ(balancer_->outcomes().size(), 1u);
  EXPECT_NEAR(balancer_->outcomes()[0].real_gain, balancer_->outcomes()[0].predicted_gain, 1e-9);
}

TEST_F(Balance, LeavesAsItIsWhatIsNotWorthIt) {
  begin({.total = 96}, {0.01, 0.01, 0.0102});
  steps(20);
  EXPECT_FALSE(propose());
  // 0.25 s less in each of 200 steps, but a change costs a minute.
  step_ = 0;
  begin({.total = 96, .change_cost_s = 60}, {0.01, 0.01, 0.02});
  steps(20);
  EXPECT_FALSE(propose());
  step_ = 0;
  begin({.total = 96, .change_cost_s = 40}, {0.01, 0.01, 0.02});
  steps(20);
  EXPECT_TRUE(propose());
}

TEST_F(Balance, BeginsWithTheGivenSpeeds) {
  begin({.total = 128, .policy = Policy::proportional, .speeds = {10, 6, 3}}, {0.01, 0.01, 0.01});
  EXPECT_EQ(balancer_->plan().batches(), (Batches{67, 41, 20}));
  steps(20);
  EXPECT_FALSE(propose());  // whatever is measured
  begin({.total = 128, .policy = Policy::hybrid, .speeds = {10, 6, 3}}, {0.01, 0.01, 0.01});
  EXPECT_EQ(balancer_->plan().batches(), (Batches{67, 41, 20}));
  step_ = 0;
  steps(8);
  const std::optional<Plan> plan = propose();
  ASSERT_TRUE(plan);
  EXPECT_LT(plan->ranks[0].batch, 67);
  EXPECT_GT(plan->ranks[0].batch, 43);  // the given speeds still count
  begin({.total = 128, .policy = Policy::dynamic, .speeds = {10, 6, 3}}, {0.01, 0.01, 0.01});
  EXPECT_EQ(balancer_->plan().batches(), (Batches{43, 43, 42}));
}

TEST_F(Balance, RanksThatOthersWaitForHavePriority) {
  begin({.total = 96, .most_batch = {20, 96, 96}}, {0.01, 0.01, 0.02});
  EXPECT_EQ(balancer_->plan().ranks[0].priority, 0);  // nothing is measured
  steps(8);
  const std::optional<Plan> plan = propose();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->batches(), (Batches{20, 51, 25}));
  EXPECT_EQ(plan->ranks[0].priority, 0);  // its memory is full, so it waits
  EXPECT_EQ(plan->ranks[1].priority, 1);
  EXPECT_EQ(plan->ranks[2].priority, 1);
}

TEST_F(Balance, DryRunProposesOnce) {
  begin({.total = 96, .dry_run = true}, {0.01, 0.01, 0.02});
  steps(10);
  EXPECT_TRUE(propose());
  EXPECT_FALSE(propose());
  EXPECT_EQ(balancer_->plan().batches(), (Batches{32, 32, 32}));
}

TEST_F(Balance, UndoGoesBackAndStaysThere) {
  begin({.total = 96}, {0.01, 0.01, 0.02});
  EXPECT_EQ(balancer_->undo(0).status().message(), "there is no plan before this one");
  steps(4);
  const std::optional<Plan> plan = propose();
  ASSERT_TRUE(plan);
  balancer_->inForce(*plan, step_);
  steps(10);
  const Result<Plan> back = balancer_->undo(step_);
  ASSERT_TRUE(back) << back.status().message();
  EXPECT_EQ(back->batches(), (Batches{32, 32, 32}));
  EXPECT_GT(back->version, plan->version);
  balancer_->inForce(*back, step_);
  steps(50);
  EXPECT_FALSE(propose());
}

TEST_F(Balance, APlanThatNobodyFollowedIsProposedAgainUnderANewNumber) {
  begin({.total = 96}, {0.01, 0.01, 0.02});
  steps(4);
  const std::optional<Plan> first = propose();
  balancer_->leftOut();
  const std::optional<Plan> second = propose();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(second->batches(), first->batches());
  EXPECT_GT(second->version, first->version);
}

TEST_F(Balance, MemoryThatDoesNotSufficeLowersTheLimitForGood) {
  begin({.total = 96}, {0.01, 0.01, 0.02});
  steps(1);
  balancer_->outOfMemory(0, 32);
  const std::optional<Plan> plan = propose();  // at once
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->batches(), (Batches{28, 45, 23}));
  balancer_->inForce(*plan, step_);
  balancer_->outOfMemory(0, 100);  // an older one
  steps(20);
  EXPECT_FALSE(propose());  // rank 0 is faster, but full
  for (int64_t r = 0; r < 3; ++r) balancer_->outOfMemory(r, 8);
  EXPECT_EQ(balancer_->propose(step_).status().code(), Code::kExhausted);
}

TEST_F(Balance, WhatMemoryDoesNotHoldIsTrainedInMicroBatches) {
  begin({.total = 96, .most_batch = {16, 64, 64}, .accumulate = true}, {0.01, 0.01, 0.02});
  EXPECT_EQ(balancer_->plan().batches(), (Batches{32, 32, 32}));
  EXPECT_EQ(balancer_->plan().ranks[0].micro_batches, 2);
  EXPECT_EQ(balancer_->plan().ranks[1].micro_batches, 1);
}

TEST_F(Balance, MicroBatchesOfAFixedSizeAreCounted) {
  begin({.total = 96, .micro_batch = 8}, {0.01, 0.01, 0.02});
  steps(4);
  const std::optional<Plan> plan = propose();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->batches(), (Batches{40, 40, 16}));
  EXPECT_EQ(plan->ranks[0].micro_batches, 5);
  EXPECT_EQ(plan->ranks[2].micro_batches, 2);
  EXPECT_FALSE(Balancer::create({.ranks = 3, .total = 100, .micro_batch = 8}));
}

TEST_F(Balance, RefusesJobsThatCannotBe) {
  EXPECT_FALSE(Balancer::create({.ranks = 0, .total = 100}));
  EXPECT_FALSE(Balancer::create({.ranks = 8, .total = 4}));
  EXPECT_FALSE(Balancer::create({.ranks = 2, .total = 4, .speeds = {1}}));
  EXPECT_FALSE(Balancer::create({.ranks = 2, .total = 4, .least_gain = std::numeric_limits<double>::quiet_NaN()}));
  EXPECT_FALSE(Balancer::create({.ranks = 2, .total = 64, .most_batch = {8, 8}}));
  begin({.total = 96}, {0.01, 0.01, 0.02});
  EXPECT_FALSE(balancer_->add(3, {0, 32, 0.1, 0.1}));
}

TEST(Coordinating, GoesOnWhereAnotherEnded) {
  test::TempDir dir;
  const std::string path = dir / "plan";
  ASSERT_TRUE(PlanPage::create(path, {.ranks = 2, .total = 64, .ahead = 0}));
  auto first = Coordinator::start(path, {});
  ASSERT_TRUE(first) << first.status().message();
  EXPECT_EQ(Coordinator::start(path, {}).status().code(), Code::kBusy);
  std::unique_ptr<Follower> ranks[2];
  for (int64_t r = 0; r < 2; ++r) ranks[r] = std::move(*Follower::open(path, r));
  int64_t step = 0;
  auto train = [&](Coordinator* coordinator, int count) {
    for (int i = 0; i < count; ++i, ++step) {
      if (coordinator) {
        ASSERT_TRUE(coordinator->turn());
      }
      for (const auto& rank : ranks) {
        const int64_t batch = rank->begin(step).ranks[static_cast<size_t>(rank->rank())].batch;
        rank->report({step, batch, static_cast<double>(batch) * (rank->rank() == 0 ? 0.01 : 0.03), 2});
      }
    }
  };
  train(first->get(), 12);
  EXPECT_EQ(ranks[0]->plan().batches(), (Batches{48, 16}));
  first->reset();  // killed
  train(nullptr, 20);
  EXPECT_EQ(ranks[1]->plan().batches(), (Batches{48, 16}));
  auto second = Coordinator::start(path, {});
  ASSERT_TRUE(second) << second.status().message();
  EXPECT_EQ((*second)->balancer().plan().batches(), (Batches{48, 16}));
  train(second->get(), 20);
  EXPECT_EQ(ranks[0]->plan().batches(), (Batches{48, 16}));
}

}  // namespace
}  // namespace tracesmith::schedule
