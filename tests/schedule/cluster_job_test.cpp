// A job as its master sees it: two nodes report what their ranks wrote into the pages, workers report over HTTP.
#include "schedule/cluster_job.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace tracesmith::schedule {
namespace {

using model::Coordination;

constexpr int64_t kNow = 1'000'000'000;

model::JobTerms terms(Coordination coordination = Coordination::master) {
  BalancerConfig config;
  config.ranks = 4;
  config.total = 64;
  return termsOf("job", coordination, 0, config);
}

/// What agents tell of a job whose rank 3 needs three times as long for a sample.
class Nodes : public ::testing::Test {
 protected:
  void SetUp() override { start(); }
  void start(const model::JobTerms& of = terms()) {
    auto made = ClusterJob::create(of, kNow);
    ASSERT_TRUE(made) << made.status().message();
    job_ = std::move(*made);
  }
  model::JobNews news(size_t node) {
    model::JobNews out;
    out.terms = terms();
    out.plans = pages_[node];
    for (int64_t r : {2 * static_cast<int64_t>(node), 2 * static_cast<int64_t>(node) + 1}) {
      model::RankNews& rank = out.ranks.emplace_back();
      rank.rank = r;
      rank.begun = step_ + 1;
      rank.version = in_force_.version;
      rank.from_step = in_force_.from_step;
      rank.first = step_;
      const int64_t batch = in_force_.ranks[static_cast<size_t>(r)].batch;
      rank.steps = {{step_, batch, (r == 3 ? 0.03 : 0.01) * static_cast<double>(batch), wall()}};
    }
    return out;
  }
  double wall() const {
    double slowest = 0;
    for (size_t r = 0; r < 4; ++r)
      slowest = std::max(slowest, (r == 3 ? 0.03 : 0.01) * static_cast<double>(in_force_.ranks[r].batch));
    return slowest;
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i, ++step_)
      for (size_t node : {0, 1}) ASSERT_TRUE(job_->take(node == 0 ? "a" : "b", news(node), kNow));
  }
  /// The agent of the node writes the plan into its page.
  void deliver(size_t node) { pages_[node].push_back(job_->plan()); }
  /// The ranks have agreed on it.
  void follow() {
    in_force_ = *fromTravel(job_->plan(), 4, 64);
    in_force_.from_step = step_;
  }

  std::unique_ptr<ClusterJob> job_;
  int64_t step_ = 0;
  Plan in_force_ = [] {
    Plan first = uniformPlan(64, 4);
    first.version = kFirstVersion;
    return first;
  }();
  std::vector<model::JobPlan> pages_[2] = {{toTravel(in_force_, true)}, {toTravel(in_force_, true)}};
};

TEST_F(Nodes, APlanIsMadeWhenAllRanksWereHeardOf) {
  for (; step_ < 10; ++step_) ASSERT_TRUE(job_->take("a", news(0), kNow));
  EXPECT_TRUE(job_->waiting().empty());
  EXPECT_EQ(job_->state(kNow).problem, "2 of 4 ranks were heard of: plans are made when all were");
  steps(10);
  EXPECT_EQ(job_->waiting(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(job_->plan().version, 2);
  EXPECT_FALSE(job_->plan().from_step);
  EXPECT_LT(job_->plan().ranks[3].batch, 10);
}

TEST_F(Nodes, APlanIsSentUntilEveryPageHasItAndInForceWhenTheRanksSaySo) {
  steps(10);
  deliver(0);
  steps(1);
  EXPECT_EQ(job_->waiting(), std::vector<std::string>{"b"});
  deliver(1);
  steps(1);
  EXPECT_TRUE(job_->waiting().empty());
  EXPECT_EQ(job_->state(kNow).plan.version, 1);
  EXPECT_EQ(job_->state(kNow).next->version, 2);
  follow();
  steps(20);
  const model::BalancedJob state = job_->state(kNow);
  EXPECT_EQ(state.plan.version, 2);
  EXPECT_EQ(state.plan.from_step, in_force_.from_step);
  EXPECT_EQ(state.before->version, 1);
  EXPECT_FALSE(state.next);
  ASSERT_EQ(state.outcomes.size(), 1u);
  EXPECT_NEAR(state.outcomes[0].real_gain, state.outcomes[0].predicted_gain, 0.05);
  EXPECT_GT(state.rates.back().samples_per_s, 1.5 * state.rates.front().samples_per_s);
  EXPECT_EQ(state.ranks[3].node, "b");
}

TEST_F(Nodes, AMasterThatStartsAgainGoesOnWithThePlanInForce) {
  steps(10);
  deliver(0), deliver(1);
  follow();
  steps(5);
  start();
  steps(20);
  const model::BalancedJob state = job_->state(kNow);
  EXPECT_EQ(state.plan.version, 2);
  EXPECT_EQ(state.plan.ranks[3].batch, in_force_.ranks[3].batch);
  EXPECT_FALSE(state.next);  // it is the best already
}

TEST_F(Nodes, AMasterThatStartsAgainSendsThePlanThatWasOnItsWay) {
  steps(10);
  deliver(0);
  const model::JobPlan on_its_way = job_->plan();
  start();
  steps(2);
  EXPECT_EQ(job_->waiting(), std::vector<std::string>{"b"});
  EXPECT_EQ(job_->plan().ranks, on_its_way.ranks);
  EXPECT_EQ(job_->plan().version, 2);
}

TEST_F(Nodes, WhatNodesMakeUpHarmsNothing) {
  steps(6);
  model::JobNews bad = news(0);
  bad.terms.total = 63;
  EXPECT_EQ(job_->take("a", bad, kNow).message(), "node a tells of another job with the id job");
  bad = news(0);
  bad.ranks[0].rank = -1;
  bad.ranks[1].rank = 3;  // it is on node b
  bad.ranks[1].begun = std::numeric_limits<int64_t>::max();
  bad.ranks[1].version = 77;
  bad.ranks[1].out_of_memory = -5;
  bad.ranks[1].steps = {{-1, -1, std::numeric_limits<double>::quiet_NaN(), -1}};
  bad.plans.emplace_back();
  bad.plans.back().version = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(job_->take("a", bad, kNow));
  const model::BalancedJob state = job_->state(kNow);
  EXPECT_EQ(state.plan.version, 1);
  EXPECT_EQ(*state.step, step_ - 1);
  model::JobTerms none = terms();
  none.ranks = 1'000'000;
  EXPECT_FALSE(ClusterJob::create(none, kNow));
  none.ranks = -1;
  EXPECT_FALSE(ClusterJob::create(none, kNow));
}

TEST_F(Nodes, ARankGoesToAnotherNodeOnlyWhenItsOwnIsSilent) {
  steps(3);
  ASSERT_TRUE(job_->take("c", news(1), kNow));
  EXPECT_EQ(job_->state(kNow).ranks[3].node, "b");
  ASSERT_TRUE(job_->take("c", news(1), kNow + 40'000'000'000));
  EXPECT_EQ(job_->state(kNow).ranks[3].node, "c");
}

TEST_F(Nodes, AJobThatItsRankZeroBalancesIsWatched) {
  const auto watched = [&](int64_t begun, int64_t version, int64_t from_step) {
    model::JobNews out;
    out.terms = terms(Coordination::rank);
    out.plans = pages_[0];
    for (int64_t r = 0; r < 4; ++r) out.ranks.push_back({r, begun, version, from_step, {}, 0, {}});
    return out;
  };
  start(terms(Coordination::rank));
  ASSERT_TRUE(job_->take("a", watched(5, 1, 0), kNow));
  Plan plan = planOf({20, 20, 20, 4});
  plan.version = 2;
  plan.from_step = 9;
  plan.ranks[1].priority = 1;
  pages_[0].push_back(toTravel(plan, true));
  ASSERT_TRUE(job_->take("a", watched(7, 1, 0), kNow));
  EXPECT_EQ(fromTravel(*job_->state(kNow).next, 4, 64)->ranks[1].priority, 1);
  EXPECT_EQ(*job_->state(kNow).next->from_step, 9);
  EXPECT_TRUE(job_->waiting().empty());
  ASSERT_TRUE(job_->take("a", watched(10, 2, 9), kNow));
  EXPECT_EQ(job_->state(kNow).plan.version, 2);
  EXPECT_EQ(job_->state(kNow).before->version, 1);
  plan.version = 3;
  plan.from_step = 12;
  pages_[0][0] = toTravel(plan, true);
  ASSERT_TRUE(job_->take("a", watched(11, 2, 9), kNow));
  ASSERT_TRUE(job_->take("a", watched(20, 2, 9), kNow));  // one rank saw it too late
  EXPECT_FALSE(job_->state(kNow).next);
  EXPECT_EQ(job_->state(kNow).notes.back().text, "Plan 3 is left out: not every rank saw it in time.");
  EXPECT_EQ(job_->undo(kNow).message(), "rank 0 of job job makes its plans: call sampler.undo() there");
}

TEST_F(Nodes, ADryRunTellsPlansAndFollowsNone) {
  ASSERT_TRUE(job_->setDryRun(true, kNow));
  steps(12);
  EXPECT_TRUE(job_->waiting().empty());
  const std::vector<model::JobNote> notes = job_->state(kNow).notes;
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].text, "From now on plans are only told.");
  EXPECT_EQ(notes[1].text.rfind("Dry run: Rank 3 needs", 0), 0u) << notes[1].text;
  EXPECT_EQ(job_->undo(kNow).message(), "job job is a dry run: it follows no plans");
  ASSERT_TRUE(job_->setDryRun(false, kNow));
  steps(2);
  EXPECT_EQ(job_->waiting().size(), 2u);
  EXPECT_EQ(job_->plan().version, 2);
}

TEST_F(Nodes, ThePlanBeforeCanBeAskedFor) {
  EXPECT_EQ(job_->undo(kNow).message(), "there is no plan before this one");
  steps(10);
  EXPECT_EQ(job_->undo(kNow).message(), "another plan is about to begin: try again in a few steps");
  deliver(0), deliver(1);
  follow();
  steps(2);
  ASSERT_TRUE(job_->undo(kNow));
  EXPECT_EQ(job_->plan().version, 3);
  EXPECT_EQ(job_->plan().ranks[3].batch, 16);
}

/// Workers that do what they are answered.
TEST(Workers, FollowPlansByTheirAnswers) {
  auto made = ClusterJob::create(terms(Coordination::workers), kNow);
  ASSERT_TRUE(made) << made.status().message();
  ClusterJob& job = **made;
  std::vector<model::WorkerPlan> now(4);
  for (auto& plan : now) plan.batch = 16;
  for (int64_t step = 0; step < 40; ++step) {
    int64_t total = 0;
    for (int64_t r = 0; r < 4; ++r) {
      model::WorkerPlan& mine = now[static_cast<size_t>(r)];
      if (mine.next && step >= mine.next->from_step) static_cast<model::WorkerShare&>(mine) = *mine.next;
      total += mine.batch;
    }
    ASSERT_EQ(total, 64) << step;  // all have changed at the same step
    for (int64_t r : {2, 0, 3, 1}) {
      model::WorkerPlan& mine = now[static_cast<size_t>(r)];
      const double busy = (r == 3 ? 0.03 : 0.01) * static_cast<double>(mine.batch);
      auto answer = job.work({"job", r, 4, 64, step, mine.batch, busy, 1, 0}, kNow);
      ASSERT_TRUE(answer) << answer.status().message();
      mine = *answer;
    }
  }
  EXPECT_LT(now[3].batch, 8);
  EXPECT_GT(now[3].version, 0);
  EXPECT_NEAR(now[3].weight, static_cast<double>(now[3].batch) / 64, 1e-12);
}

TEST(Workers, ThatCannotBeOfTheJobAreRefused) {
  auto made = ClusterJob::create(terms(Coordination::workers), kNow);
  ASSERT_TRUE(made);
  ClusterJob& job = **made;
  ASSERT_TRUE(job.work({"job", 1, 4, 64, 5, 16, 0.1, 0.2, 0}, kNow));
  EXPECT_EQ(job.work({"job", 1, 4, 64, 2, 16, 0.1, 0.2, 0}, kNow).status().message(),
            "rank 1 of job job was in step 5 already; a job that begins again needs another name");
  EXPECT_FALSE(job.work({"job", 1, 5, 64, 6, 16, 0.1, 0.2, 0}, kNow));
  EXPECT_FALSE(job.work({"job", 4, 4, 64, 6, 16, 0.1, 0.2, 0}, kNow));
  const auto doubted = job.work({"job", 1, 4, 64, 6, 16, 0.3, 0.2, 0}, kNow);
  ASSERT_TRUE(doubted);
  EXPECT_NE(doubted->left_out.find("is no measurement"), std::string::npos) << doubted->left_out;
  const auto again = job.work({"job", 1, 4, 64, 6, 16, 0.1, 0.2, 0}, kNow);  // its answer was lost
  ASSERT_TRUE(again);
  EXPECT_EQ(again->batch, 16);
}

}  // namespace
}  // namespace tracesmith::schedule
