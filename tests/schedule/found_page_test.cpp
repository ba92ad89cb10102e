// Pages that somebody else put into a folder: an agent reads them, whatever they are.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "schedule/terms.hpp"
#include "support/process.hpp"

namespace tracesmith::schedule {
namespace {

class Found : public ::testing::Test {
 protected:
  void SetUp() override {
    BalancerConfig config;
    config.ranks = 4;
    config.total = 64;
    config.speeds = {1, 2, 3, 4};
    auto page = createPage(path_, termsOf("0123456789abcdef", model::Coordination::master, 2, config));
    ASSERT_TRUE(page) << page.status().message();
    Plan plan = uniformPlan(64, 4);
    for (plan.version = 1; plan.version < 3; ++plan.version) ASSERT_TRUE((*page)->publish(plan));
    for (int64_t r = 0; r < 4; ++r) {
      ASSERT_TRUE((*page)->begin(r, 20));
      for (int64_t i = 0; i < 20; ++i) ASSERT_TRUE((*page)->report(r, i, {i, 16, 0.1, 0.2}));
    }
  }
  Result<std::unique_ptr<PlanPage>> found(const std::string& path) { return PlanPage::openFound(path, ::geteuid()); }
  std::string refused(const std::string& path) { return found(path).status().message(); }
  /// All that an agent reads.
  static void readAll(const PlanPage& page) {
    (void)termsOf(page);
    (void)page.latest();
    for (int64_t r = -1; r <= std::min<int64_t>(page.shape().ranks, 16); ++r) {
      (void)page.words(r);
      (void)page.reports(r, 0);
    }
    for (int64_t which : {0, 1})
      if (const Result<Plan> plan = page.slot(which))
        (void)fromTravel(toTravel(*plan, true), page.shape().ranks, page.shape().total);
  }

  test::TempDir dir_;
  const std::string path_ = dir_ / "tracesmith-plan-1";
};

TEST_F(Found, AWholePageIsRead) {
  auto page = found(path_);
  ASSERT_TRUE(page) << page.status().message();
  const Result<model::JobTerms> terms = termsOf(**page);
  ASSERT_TRUE(terms) << terms.status().message();
  EXPECT_EQ(terms->job, "0123456789abcdef");
  EXPECT_EQ(terms->coordination, model::Coordination::master);
  EXPECT_EQ(terms->speeds, (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(terms->ahead, 2);
  EXPECT_EQ((*page)->latest()->version, 2);
  EXPECT_EQ((*page)->reports(3, 0)->size(), 16u);
}

TEST_F(Found, WhatIsNoPageIsRefusedAtOnce) {
  ASSERT_EQ(::symlink(path_.c_str(), (dir_ / "link").c_str()), 0);
  EXPECT_FALSE(found(dir_ / "link"));
  ASSERT_EQ(::mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refused(dir_ / "pipe"), dir_ / "pipe" + " is not read: it is not a file");
  EXPECT_FALSE(found(dir_.path()));
  test::writeFile(dir_ / "empty", "");
  EXPECT_EQ(refused(dir_ / "empty"), dir_ / "empty" + " was cut short");
  test::writeFile(dir_ / "sparse", "");
  ASSERT_EQ(::truncate((dir_ / "sparse").c_str(), int64_t{1} << 30), 0);
  EXPECT_EQ(refused(dir_ / "sparse"), dir_ / "sparse" + " is no page of plans");
  test::writeFile(dir_ / "long", test::readFile(path_) + "more");
  EXPECT_EQ(refused(dir_ / "long"), dir_ / "long" + " is damaged: it is not as long as it must be");
  test::writeFile(dir_ / "open", test::readFile(path_));
  ASSERT_EQ(::chmod((dir_ / "open").c_str(), 0666), 0);
  EXPECT_EQ(refused(dir_ / "open"), dir_ / "open" + " is not read: other users can write to it");
}

TEST_F(Found, APageThatIsCutAnywhereIsRefused) {
  const std::string whole = test::readFile(path_);
  for (size_t size = 0; size < whole.size(); size += size < 600 ? 1 : 97) {
    test::writeFile(dir_ / "cut", whole.substr(0, size));
    EXPECT_FALSE(found(dir_ / "cut")) << size;
  }
}

TEST_F(Found, APageWithAnyBytesIsReadOrRefused) {
  const std::string whole = test::readFile(path_);
  std::mt19937 random(3);
  int opened = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = whole;
    // Mostly behind the header and the terms, which have a checksum.
    for (int i = 0; i < 1 + round % 60; ++i) {
      const size_t at = round % 8 == 0 ? random() % bytes.size() : bytes.size() - 1 - random() % (4 * 704 + 800);
      bytes[at] = static_cast<char>(random());
    }
    test::writeFile(dir_ / "random", bytes);
    const auto page = found(dir_ / "random");
    if (!page) continue;
    ++opened;
    readAll(**page);
  }
  EXPECT_GT(opened, 200);
}

TEST_F(Found, APageThatIsCutWhileItIsOpenGivesErrors) {
  const auto page = found(path_);
  ASSERT_TRUE(page);
  ASSERT_EQ(::truncate(path_.c_str(), 300), 0);
  EXPECT_FALSE((*page)->words(0));
  EXPECT_FALSE((*page)->latest());
  readAll(**page);
}

}  // namespace
}  // namespace tracesmith::schedule
