#include "schedule/plan_page.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>
#include <random>

#include "schedule/follower.hpp"
#include "support/process.hpp"

namespace tracesmith::schedule {
namespace {

constexpr JobShape kShape{.ranks = 3, .total = 96, .ahead = 0};

Plan planFor(int64_t version, int64_t from_step) {
  Plan plan = planOf({48 - version % 8, 32, 16 + version % 8});
  plan.version = version;
  plan.from_step = from_step;
  plan.before_s = 0.5;
  plan.after_s = 0.4;
  plan.reason = "Rank 2 is slow.";
  return plan;
}

class Page : public ::testing::Test {
 protected:
  void SetUp() override { make(kShape); }
  void make(const JobShape& shape) {
    ::unlink(path_.c_str());
    auto page = PlanPage::create(path_, shape);
    ASSERT_TRUE(page) << page.status().message();
    page_ = std::move(*page);
  }
  std::unique_ptr<PlanPage> open() {
    auto page = PlanPage::open(path_);
    EXPECT_TRUE(page) << page.status().message();
    return page ? std::move(*page) : nullptr;
  }
  std::unique_ptr<Follower> follower(int64_t rank) {
    auto follower = Follower::open(path_, rank);
    EXPECT_TRUE(follower) << follower.status().message();
    return std::move(*follower);
  }
  /// Bytes that differ from place `at` on.
  void damage(size_t at, size_t count = 1) {
    std::string bytes = test::readFile(path_);
    for (size_t i = at; i < std::min(at + count, bytes.size()); ++i) bytes[i] = static_cast<char>(bytes[i] ^ 0x5a);
    test::writeFile(path_, bytes);
  }

  test::TempDir dir_;
  const std::string path_ = dir_ / "plan";
  std::unique_ptr<PlanPage> page_;
};

TEST_F(Page, HasThePlanThatWasPublished) {
  EXPECT_EQ(open()->latest().status().code(), Code::kNotFound);
  ASSERT_TRUE(page_->publish(planFor(1, 7)));
  const Result<Plan> plan = open()->latest();
  ASSERT_TRUE(plan) << plan.status().message();
  EXPECT_EQ(plan->version, 1);
  EXPECT_EQ(plan->from_step, 7);
  EXPECT_EQ(plan->batches(), (std::vector<int64_t>{47, 32, 17}));
  EXPECT_DOUBLE_EQ(plan->ranks[2].weight, 17.0 / 96);
  EXPECT_EQ(plan->reason, "Rank 2 is slow.");
  EXPECT_NEAR(plan->gain(), 0.2, 1e-12);
  Plan urgent = planFor(2, 9);
  urgent.ranks[1].priority = 1;
  ASSERT_TRUE(page_->publish(urgent));
  EXPECT_EQ(open()->latest()->ranks[1].priority, 1);
  EXPECT_EQ(open()->latest()->ranks[2].priority, 0);
  for (int64_t version : {3, 4, 5}) {
    ASSERT_TRUE(page_->publish(planFor(version, 10)));
    EXPECT_EQ(page_->latest()->version, version);
  }
}

TEST_F(Page, RefusesAPlanThatNoJobCanFollow) {
  Plan plan = planFor(1, 5);
  plan.ranks[0].batch += 1;
  EXPECT_EQ(page_->publish(plan).message(), "plan 1 has 97 samples in a step instead of 96");
  plan = planFor(1, 5);
  plan.ranks[1].batch = 0;
  EXPECT_FALSE(page_->publish(plan));
  plan = planFor(1, 5);
  plan.ranks[1].weight = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(page_->publish(plan));
  plan = planFor(1, 5);
  plan.ranks.pop_back();
  EXPECT_EQ(page_->publish(plan).message(), "plan 1 is for 2 ranks, but the job has 3");
}

TEST_F(Page, APlanWithAnyByteWrongIsNeverRead) {
  ASSERT_TRUE(page_->publish(planFor(1, 5)));
  ASSERT_TRUE(page_->publish(planFor(2, 9)));
  constexpr size_t kHeader = 64, kSlot = 256 + 3 * 40;
  for (size_t at = kHeader; at < kHeader + kSlot; ++at) {  // plan 2 is in the first half
    damage(at);
    const Result<Plan> plan = page_->latest();
    ASSERT_TRUE(plan) << at << ": " << plan.status().message();
    EXPECT_EQ(plan->version, 1) << at;
    damage(at);
  }
  EXPECT_EQ(page_->latest()->version, 2);
  damage(kHeader, 2 * kSlot);
  EXPECT_EQ(page_->latest().status().code(), Code::kCorrupt);
}

TEST_F(Page, IsOpenedOnlyIfItIsOne) {
  damage(3);
  EXPECT_EQ(PlanPage::open(path_).status().message(), path_ + " is no page of plans");
  damage(3);
  damage(10);
  EXPECT_EQ(PlanPage::open(path_).status().code(), Code::kCorrupt);
  damage(10);
  EXPECT_TRUE(PlanPage::open(path_));
  ASSERT_EQ(::truncate(path_.c_str(), 20), 0);
  EXPECT_EQ(PlanPage::open(path_).status().message(), path_ + " was cut short");
  EXPECT_FALSE(PlanPage::open(dir_ / "nothing"));
  EXPECT_FALSE(PlanPage::create(path_, kShape));  // it is there
  EXPECT_FALSE(PlanPage::create(dir_ / "other", {.ranks = 0, .total = 5, .ahead = 0}));
  EXPECT_FALSE(PlanPage::create(dir_ / "other", {.ranks = 8, .total = 5, .ahead = 0}));
}

TEST_F(Page, HasOneCoordinator) {
  std::unique_ptr<PlanPage> other = open();
  ASSERT_TRUE(page_->lockCoordinator());
  const Status status = other->lockCoordinator();
  EXPECT_EQ(status.code(), Code::kBusy);
  EXPECT_EQ(status.message(), "another coordinator balances the job of " + path_ + ": end it first");
  page_.reset();  // as when its process is killed
  EXPECT_TRUE(other->lockCoordinator());
}

TEST_F(Page, KeepsTheLastReportsOfARank) {
  const std::unique_ptr<Follower> rank = follower(1);
  for (int64_t i = 0; i < 20; ++i) rank->report({i, 32, 0.1 * static_cast<double>(i + 1), 9});
  const Result<std::vector<StepMeasure>> all = page_->reports(1, 0);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), static_cast<size_t>(PlanPage::kReports));
  EXPECT_EQ(all->front().step, 4);
  EXPECT_EQ(page_->reports(1, 18)->size(), 2u);
  EXPECT_EQ(page_->reports(1, 20)->size(), 0u);
  EXPECT_EQ(page_->reports(0, 0)->size(), 0u);
  EXPECT_FALSE(page_->reports(3, 0));
  rank->outOfMemory(40);
  rank->outOfMemory(50);
  EXPECT_EQ(page_->words(1)->out_of_memory, 40);
}

TEST_F(Page, RanksFollowAPlanFromItsStepOn) {
  const std::unique_ptr<Follower> ranks[] = {follower(0), follower(1), follower(2)};
  for (int64_t step = 0; step < 12; ++step) {
    if (step == 4) {
      ASSERT_TRUE(page_->publish(planFor(1, 7)));
    }
    for (const auto& rank : ranks) EXPECT_EQ(rank->begin(step).version, step < 7 ? 0 : 1) << step;
  }
  for (const auto& rank : ranks) EXPECT_TRUE(rank->takeNotes().empty());
}

TEST_F(Page, AJobBeginsWithThePlanForStepZero) {
  ASSERT_TRUE(page_->publish(planFor(1, 0)));
  EXPECT_EQ(follower(1)->begin(0).version, 1);
  EXPECT_EQ(Follower::open(path_, 3).status().message(), path_ + " is for 3 ranks: there is no rank 3");
}

TEST_F(Page, APlanThatOneRankDidNotSeeIsFollowedByNone) {
  const std::unique_ptr<Follower> ranks[] = {follower(0), follower(1), follower(2)};
  for (int64_t step = 0; step < 12; ++step) {
    for (int r = 0; r < 3; ++r) {
      if (step == 6 && r == 2) {  // the first two have begun step 6
        ASSERT_TRUE(page_->publish(planFor(1, 7)));
      }
      EXPECT_EQ(ranks[r]->begin(step).version, 0) << step;
    }
  }
  EXPECT_EQ(ranks[2]->takeNotes(),
            std::vector<std::string>{"plan 1 is left out: not every rank saw it in time for step 7"});
  EXPECT_EQ(ranks[0]->takeNotes(),
            std::vector<std::string>{"plan 1 is left out: it came in step 7, too late for step 7"});
}

TEST_F(Page, ADamagedPageLeavesTheLastPlanInForce) {
  const std::unique_ptr<Follower> ranks[] = {follower(0), follower(1), follower(2)};
  ASSERT_TRUE(page_->publish(planFor(1, 2)));
  for (int64_t step = 0; step < 4; ++step) {
    for (const auto& rank : ranks) rank->begin(step);
  }
  damage(64, 2 * (256 + 3 * 40));
  for (const auto& rank : ranks) EXPECT_EQ(rank->begin(4).version, 1);
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  for (int64_t step = 5; step < 9; ++step) {
    for (const auto& rank : ranks) EXPECT_EQ(rank->begin(step).batches(), (std::vector<int64_t>{47, 32, 17}));
  }
  EXPECT_EQ(ranks[0]->takeNotes().size(), 2u);  // damaged, and cut short: each is told once
}

/// Ranks that run as far ahead of each other as the exchange of gradients lets them, in any order; plans at any time,
/// for steps that may be too close.
TEST_F(Page, AllRanksChangeAtTheSameStepOrNoneDoes) {
  std::mt19937 random(1);
  int followed = 0, left_out = 0;
  for (int round = 0; round < 60; ++round) {
    const JobShape shape{.ranks = 2 + round % 4, .total = 64, .ahead = round % 3};
    make(shape);
    std::vector<std::unique_ptr<Follower>> ranks;
    for (int64_t r = 0; r < shape.ranks; ++r) ranks.push_back(follower(r));
    std::vector<int64_t> begun(ranks.size(), 0);
    std::vector<std::vector<int64_t>> versions(ranks.size());
    int64_t version = 0;
    constexpr int64_t kSteps = 60;
    while (*std::min_element(begun.begin(), begun.end()) < kSteps) {
      const int64_t slowest = *std::min_element(begun.begin(), begun.end());
      if (random() % 20 == 0) {
        Plan plan = uniformPlan(shape.total, shape.ranks);
        plan.version = ++version;
        plan.from_step = slowest + static_cast<int64_t>(random() % 8);
        ASSERT_TRUE(page_->publish(plan));
      }
      const size_t r = random() % ranks.size();
      if (begun[r] > slowest + shape.ahead) continue;  // it waits for the others
      versions[r].push_back(ranks[r]->begin(begun[r]++).version);
    }
    for (size_t r = 1; r < ranks.size(); ++r) {
      for (size_t step = 0; step < kSteps; ++step)
        ASSERT_EQ(versions[r][step], versions[0][step]) << round << " " << step;
    }
    for (size_t step = 1; step < kSteps; ++step) followed += versions[0][step] != versions[0][step - 1];
    left_out += !ranks[0]->takeNotes().empty();
  }
  EXPECT_GT(followed, 30);
  EXPECT_GT(left_out, 10);
}

}  // namespace
}  // namespace tracesmith::schedule
