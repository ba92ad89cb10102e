// The agent's side of balancing: pages in the folder of rings, among files that are none.
#include "cluster/agent/plan_carrier.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schedule/follower.hpp"
#include "schedule/terms.hpp"
#include "support/process.hpp"

namespace tracesmith::cluster {
namespace {

using namespace schedule;

class Carrier : public ::testing::Test {
 protected:
  JobTerms terms(const std::string& job) {
    BalancerConfig config;
    config.ranks = 4;
    config.total = 64;
    return termsOf(job, Coordination::master, 0, config);
  }
  /// The page of a job of which ranks 0 and 1 are here.
  void makePage(const std::string& job) {
    const std::string path = dir_ / (PlanPage::kPrefix + job);
    ASSERT_TRUE(createPage(path, terms(job)));
    for (int64_t r : {0, 1}) {
      auto rank = Follower::open(path, r);
      ASSERT_TRUE(rank);
      (*rank)->begin(0);
      (*rank)->report({0, 16, 0.1, 0.2});
      ranks_.push_back(std::move(*rank));
    }
  }
  PlanOrder order(const std::string& job, int64_t version) {
    Plan plan = planOf({20, 20, 20, 4});
    plan.version = version;
    return {job, toTravel(plan, false)};
  }

  test::TempDir dir_;
  std::vector<std::unique_ptr<Follower>> ranks_;
  PlanCarrier carrier_{dir_.path(), {}};
};

TEST_F(Carrier, TellsWhatRanksMeasuredAndBringsPlans) {
  makePage("one");
  std::vector<JobNews> news = carrier_.take();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].terms, terms("one"));
  ASSERT_EQ(news[0].ranks.size(), 2u);
  EXPECT_EQ(news[0].ranks[1].rank, 1);
  ASSERT_EQ(news[0].ranks[1].steps.size(), 1u);
  EXPECT_DOUBLE_EQ(news[0].ranks[1].steps[0].busy_s, 0.1);
  EXPECT_TRUE(carrier_.take().empty());  // not more often than once a second
  carrier_.put(order("one", 2));
  EXPECT_EQ(ranks_[0]->page().latest()->version, 2);
  news = carrier_.take();  // the master waits to hear that it is there
  ASSERT_EQ(news.size(), 1u);
  ASSERT_EQ(news[0].plans.size(), 1u);
  EXPECT_EQ(news[0].plans[0].version, 2);
  EXPECT_TRUE(news[0].ranks[0].steps.empty());
  ASSERT_EQ(ranks_[0]->page().visits().status().message(), "");
  EXPECT_EQ(*ranks_[0]->page().visits(), 2);
  carrier_.rewind();
  EXPECT_EQ(carrier_.take()[0].ranks[0].steps.size(), 1u);
}

TEST_F(Carrier, DoesNotReplaceAPlanThatARankMayHaveVotedFor) {
  makePage("one");
  ASSERT_EQ(carrier_.take().size(), 1u);
  carrier_.put(order("one", 2));
  PlanOrder other = order("one", 2);
  std::swap(other.plan.ranks[0], other.plan.ranks[3]);
  carrier_.put(other);
  EXPECT_EQ(ranks_[0]->page().latest()->ranks[3].batch, 4);
  carrier_.put(order("another", 3));
  other = order("one", 3);
  other.plan.ranks[0].batch = 1000;
  carrier_.put(other);
  EXPECT_EQ(ranks_[0]->page().latest()->version, 2);
}

TEST_F(Carrier, APageHasOneAgent) {
  makePage("one");
  PlanCarrier second(dir_.path(), {});
  EXPECT_EQ(carrier_.take().size(), 1u);
  EXPECT_TRUE(second.take().empty());
}

TEST_F(Carrier, FilesThatAreNoPagesDisturbNobody) {
  const auto name = [&](const std::string& what) { return dir_ / (PlanPage::kPrefix + what); };
  ASSERT_EQ(::mkfifo(name("pipe").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("/dev/zero", name("link").c_str()), 0);
  ASSERT_EQ(::mkdir(name("folder").c_str(), 0700), 0);
  test::writeFile(name("garbage"), std::string(10000, 'x'));
  test::writeFile(name("sparse"), "");
  ASSERT_EQ(::truncate(name("sparse").c_str(), int64_t{1} << 30), 0);
  for (int i = 0; i < 200; ++i) test::writeFile(name("z" + std::to_string(i)), "no page");
  makePage("good");
  test::writeFile(name("cut"), test::readFile(name("good")).substr(0, 700));
  const std::vector<JobNews> news = carrier_.take();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].terms.job, "good");
  carrier_.put(order("good", 2));
  EXPECT_EQ(ranks_[0]->page().latest()->version, 2);
}

TEST_F(Carrier, APageOfAJobThatWasKilledIsRemoved) {
  makePage("one");
  const std::string path = dir_ / (std::string(PlanPage::kPrefix) + "one");
  const timespec long_ago[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), long_ago, 0), 0);
  EXPECT_EQ(carrier_.take().size(), 1u);  // its ranks are there, however slow they are
  ranks_.clear();
  carrier_.rewind();
  EXPECT_EQ(carrier_.take().size(), 1u);  // it was written a moment ago
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), long_ago, 0), 0);
  carrier_.rewind();
  EXPECT_TRUE(carrier_.take().empty());
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST_F(Carrier, AJobThatDoesNothingIsNotTold) {
  makePage("one");
  ASSERT_EQ(carrier_.take().size(), 1u);
  carrier_.put(order("one", 2));
  ASSERT_EQ(carrier_.take().size(), 1u);
  carrier_.put(order("one", 2));  // it looks again at once
  EXPECT_TRUE(carrier_.take().empty());
  ranks_[0]->begin(1);
  carrier_.put(order("one", 2));
  EXPECT_EQ(carrier_.take().size(), 1u);
}

TEST_F(Carrier, APageThatIsGoneIsForgotten) {
  makePage("one");
  ASSERT_EQ(carrier_.take().size(), 1u);
  ASSERT_EQ(::truncate((dir_ / (std::string(PlanPage::kPrefix) + "one")).c_str(), 100), 0);
  carrier_.rewind();
  EXPECT_TRUE(carrier_.take().empty());
  ASSERT_EQ(::unlink((dir_ / (std::string(PlanPage::kPrefix) + "one")).c_str()), 0);
  carrier_.rewind();
  EXPECT_TRUE(carrier_.take().empty());
}

}  // namespace
}  // namespace tracesmith::cluster
