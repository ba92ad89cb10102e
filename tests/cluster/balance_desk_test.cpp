// The jobs that a master balances have a limit, and those that are silent go.
#include "cluster/master/balance_desk.hpp"

#include <gtest/gtest.h>

#include "schedule/terms.hpp"

namespace tracesmith::cluster {
namespace {

class Desk : public ::testing::Test {
 protected:
  Result<std::vector<WorkerPlan>> work(const std::string& job, int64_t ranks = 2, int64_t step = 0) {
    return desk_.work({{job, 0, ranks, 4 * ranks, step, 4, 0.1, 0.2, 0}});
  }
  int64_t now_ns_ = 1;
  std::vector<std::pair<std::string, PlanOrder>> sent_;
  BalanceDesk desk_{[this] { return now_ns_; },
                    [this](const std::string& node, const PlanOrder& order) { sent_.emplace_back(node, order); }};
};

TEST_F(Desk, HasALimitAndTheJobThatIsSilentLongestMakesRoom) {
  for (size_t i = 0; i < BalanceDesk::kMostJobs; ++i, ++now_ns_) ASSERT_TRUE(work("job" + std::to_string(i)));
  EXPECT_EQ(work("more").status().code(), Code::kBusy);
  now_ns_ += BalanceDesk::kSilentNs;
  ASSERT_TRUE(work("job0", 2, 1));
  ASSERT_TRUE(work("more"));
  const BalanceStatus status = desk_.status();
  EXPECT_EQ(status.jobs.size(), BalanceDesk::kMostJobs);
  for (const BalancedJob& job : status.jobs) EXPECT_NE(job.terms.job, "job1");
  now_ns_ += BalanceDesk::kForgetNs + 1;
  EXPECT_TRUE(desk_.status().jobs.empty());
}

TEST_F(Desk, ManyRanksHaveALimitToo) {
  EXPECT_EQ(work("wide", BalanceDesk::kMostWorkers + 1).status().code(), Code::kInvalid);
  int64_t jobs = 0;
  while (work("wide" + std::to_string(jobs), BalanceDesk::kMostWorkers)) ++jobs;
  EXPECT_EQ(jobs, BalanceDesk::kMostRanks / BalanceDesk::kMostWorkers);
}

TEST_F(Desk, AJobIsBalancedFromOneSide) {
  ASSERT_TRUE(work("one"));
  schedule::BalancerConfig config;
  config.ranks = 2;
  config.total = 8;
  JobNews news;
  news.terms = schedule::termsOf("one", Coordination::master, 0, config);
  news.ranks.push_back({0, 5, 0, 0, {}, 0, {}});
  desk_.take("a", news);
  EXPECT_EQ(desk_.status().jobs.front().terms.coordination, Coordination::workers);
  news.terms.job = "two";
  desk_.take("a", news);
  EXPECT_EQ(work("two").status().message(), "job two is balanced through the pages of its nodes, not over HTTP");
  news.terms.ranks = -7;
  news.terms.job = "three";
  desk_.take("a", news);
  EXPECT_EQ(desk_.status().jobs.size(), 2u);
  EXPECT_EQ(desk_.undo("three").message(), "no job three is being balanced");
}

}  // namespace
}  // namespace tracesmith::cluster
