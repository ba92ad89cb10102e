// Ranks on several nodes: each node has its own page, and plans reach the pages at any time or never.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "schedule/follower.hpp"
#include "support/process.hpp"

namespace tracesmith::schedule {
namespace {

Plan planFor(const JobShape& shape, int64_t version, int64_t shift) {
  std::vector<int64_t> batches = uniformPlan(shape.total, shape.ranks).batches();
  batches.front() += shift;
  batches.back() -= shift;
  Plan plan = planOf(batches);
  plan.version = version;
  plan.reason = "Rank 0 is fast.";
  return plan;
}

/// Ranks that exchange gradients: none is more than `ahead` batches further than the slowest. Their votes are counted
/// when all have voted.
class Job {
 public:
  Job(const std::string& folder, const JobShape& shape, size_t nodes) : shape_(shape) {
    for (size_t n = 0; n < nodes; ++n) {
      auto page = PlanPage::create(folder + "/" + std::to_string(n), shape);
      EXPECT_TRUE(page) << page.status().message();
      pages.push_back(std::move(*page));
    }
    for (int64_t r = 0; r < shape.ranks; ++r) {
      auto rank = Follower::open(pages[static_cast<size_t>(r) % nodes]->path(), r);
      EXPECT_TRUE(rank) << rank.status().message();
      ranks.push_back(std::move(*rank));
    }
    begun.assign(ranks.size(), 0);
    votes_.assign(ranks.size(), {});
    versions.assign(ranks.size(), {});
    batches.assign(ranks.size(), {});
  }
  int64_t slowest() const { return *std::min_element(begun.begin(), begun.end()); }
  /// Rank r begins its next step, unless it waits for others.
  void step(size_t r) {
    const int64_t step = begun[r];
    if (step > slowest() + shape_.ahead) return;
    if (ranks[r]->due(step)) {
      ASSERT_FALSE(votes_[r].empty());
      std::vector<int64_t> least = votes_[r].back();
      for (const auto& of_rank : votes_) {
        ASSERT_GE(of_rank.size(), votes_[r].size()) << "a rank would wait for one that waits for it";
        const std::vector<int64_t>& other = of_rank[votes_[r].size() - 1];
        for (size_t i = 0; i < least.size(); ++i) least[i] = std::min(least[i], other[i]);
      }
      ranks[r]->counted(step, least);
    }
    if (std::vector<int64_t> ballot = ranks[r]->ballot(step); !ballot.empty()) votes_[r].push_back(std::move(ballot));
    const Plan& plan = ranks[r]->begin(step);
    versions[r].push_back(plan.version);
    batches[r].push_back(plan.batches());
    ++begun[r];
  }
  void run(int64_t until) {
    while (slowest() < until)
      for (size_t r = 0; r < ranks.size(); ++r) step(r);
  }

  std::vector<std::unique_ptr<PlanPage>> pages;
  std::vector<std::unique_ptr<Follower>> ranks;
  std::vector<int64_t> begun;
  std::vector<std::vector<int64_t>> versions;
  std::vector<std::vector<std::vector<int64_t>>> batches;

 private:
  const JobShape shape_;
  std::vector<std::vector<std::vector<int64_t>>> votes_;
};

constexpr JobShape kShape{.ranks = 4, .total = 64, .ahead = 0, .vote = true};

TEST(Vote, APlanThatAllPagesHaveIsFollowedByAllRanks) {
  test::TempDir dir;
  Job job(dir.path(), kShape, 2);
  job.run(3);
  for (const auto& page : job.pages) ASSERT_TRUE(page->publish(planFor(kShape, 2, 4)));
  job.run(30);
  for (const auto& of_rank : job.versions) {
    EXPECT_EQ(of_rank, job.versions[0]);
    EXPECT_EQ(of_rank[11], 0);
    EXPECT_EQ(of_rank[12], 2);  // voted at 8, counted at 12
  }
  for (int64_t r = 0; r < 4; ++r) {
    const Result<RankWords> words = job.pages[static_cast<size_t>(r) % 2]->words(r);
    ASSERT_TRUE(words);
    EXPECT_EQ(words->follows.version, 2);
    EXPECT_EQ(words->follows.step, 12);
  }
}

TEST(Vote, APlanThatOnePageDoesNotHaveIsFollowedByNone) {
  test::TempDir dir;
  Job job(dir.path(), kShape, 2);
  ASSERT_TRUE(job.pages[0]->publish(planFor(kShape, 2, 4)));
  job.run(40);
  for (const auto& of_rank : job.versions) EXPECT_EQ(of_rank, std::vector<int64_t>(of_rank.size(), 0));
  ASSERT_TRUE(job.pages[1]->publish(planFor(kShape, 2, 4)));  // its agent is back
  job.run(60);
  for (const auto& of_rank : job.versions) EXPECT_EQ(of_rank.back(), 2);
}

TEST(Vote, TwoPlansOfOneVersionAreFollowedByNone) {
  test::TempDir dir;
  Job job(dir.path(), kShape, 2);
  ASSERT_TRUE(job.pages[0]->publish(planFor(kShape, 2, 4)));
  ASSERT_TRUE(job.pages[1]->publish(planFor(kShape, 2, 5)));
  job.run(40);
  for (const auto& of_rank : job.versions) EXPECT_EQ(of_rank.back(), 0);
  for (const auto& page : job.pages) ASSERT_TRUE(page->publish(planFor(kShape, 3, 6)));
  job.run(60);
  for (const auto& of_rank : job.versions) EXPECT_EQ(of_rank.back(), 3);
}

TEST(Vote, ARankFollowsWhatItVotedForWhateverBecomesOfItsPage) {
  test::TempDir dir;
  Job job(dir.path(), kShape, 2);
  for (const auto& page : job.pages) ASSERT_TRUE(page->publish(planFor(kShape, 2, 4)));
  job.run(1);
  ASSERT_EQ(::truncate(job.pages[0]->path().c_str(), 0), 0);
  job.run(20);
  for (const auto& of_rank : job.batches) {
    EXPECT_EQ(of_rank.back(), (std::vector<int64_t>{20, 16, 16, 12}));
    EXPECT_EQ(of_rank, job.batches[0]);
  }
}

/// Plans that come late, to one page and not to the other, twice, with other contents, or broken.
TEST(Vote, AllRanksChangeAtTheSameStepOrNoneDoes) {
  std::mt19937 random(7);
  int followed = 0;
  for (int round = 0; round < 40; ++round) {
    test::TempDir dir;
    const JobShape shape{.ranks = 2 + round % 5, .total = 64, .ahead = round % 4, .vote = true};
    Job job(dir.path(), shape, 2);
    std::vector<std::pair<size_t, Plan>> on_their_way;
    int64_t version = 0;
    while (job.slowest() < 120) {
      if (random() % 60 == 0) {
        const Plan plan = planFor(shape, ++version, static_cast<int64_t>(random() % 8));
        for (size_t n = 0; n < 2; ++n)
          if (random() % 5 > 0) on_their_way.emplace_back(n, plan);
        if (random() % 4 == 0) on_their_way.emplace_back(random() % 2, planFor(shape, version, 9));
      }
      if (!on_their_way.empty() && random() % 8 == 0) {
        const size_t which = random() % on_their_way.size();
        ASSERT_TRUE(job.pages[on_their_way[which].first]->publish(on_their_way[which].second));
        on_their_way.erase(on_their_way.begin() + static_cast<ptrdiff_t>(which));
      }
      ASSERT_NO_FATAL_FAILURE(job.step(random() % job.ranks.size()));
    }
    for (size_t r = 1; r < job.ranks.size(); ++r)
      for (size_t step = 0; step < 120; ++step)
        ASSERT_EQ(job.batches[r][step], job.batches[0][step]) << round << " " << step;
    for (size_t step = 1; step < 120; ++step) followed += job.versions[0][step] != job.versions[0][step - 1];
  }
  EXPECT_GT(followed, 40);
}

}  // namespace
}  // namespace tracesmith::schedule
