// A summary says the same of a job as the whole of it.
#include "analysis/summary/summarize.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "analysis/summary/keeper.hpp"
#include "analysis/summary/row_copy.hpp"
#include "support/process.hpp"
#include "support/sample_trace.hpp"
#include "support/small_job.hpp"
#include "support/table.hpp"
#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::analysis {
namespace {

class Summary : public testing::Test {
 protected:
  std::string summaryOf(const std::string& whole) {
    const std::string to = dir_ / "summary.sbt";
    auto reader = trace::Reader::open(whole);
    auto writer = trace::Writer::create(to);
    EXPECT_TRUE(reader && writer);
    auto done = summarize(**reader, **writer);
    EXPECT_TRUE(done) << done.status().message();
    EXPECT_TRUE((*writer)->close());
    return to;
  }
  static Analysis of(const std::string& path) {
    auto reader = trace::Reader::open(path);
    EXPECT_TRUE(reader) << reader.status().message();
    auto result = analyze(**reader);
    EXPECT_TRUE(result) << result.status().message();
    return std::move(*result);
  }
  static void expectSame(const Analysis& a, const Analysis& b) {
    EXPECT_EQ(a.verdict.rank, b.verdict.rank) << b.verdict.text;
    EXPECT_EQ(a.verdict.cause, b.verdict.cause) << b.verdict.text;
    EXPECT_EQ(a.verdict.text, b.verdict.text);
    if (!std::isnan(a.verdict.cost_pct)) {
      EXPECT_NEAR(a.verdict.cost_pct, b.verdict.cost_pct, 0.01);
    }
    EXPECT_EQ(a.steps_by, b.steps_by);
    EXPECT_EQ(a.steps.size(), b.steps.size());
    EXPECT_EQ(a.events, b.events);
    EXPECT_EQ(a.collectives.size(), b.collectives.size());
    ASSERT_EQ(a.breakdown.size(), b.breakdown.size());
    for (size_t i = 0; i < a.breakdown.size(); ++i) {
      EXPECT_EQ(a.breakdown[i].compute_us, b.breakdown[i].compute_us);
      EXPECT_EQ(a.breakdown[i].exposed_comm_us, b.breakdown[i].exposed_comm_us);
      EXPECT_EQ(a.breakdown[i].idle_us, b.breakdown[i].idle_us);
    }
    ASSERT_EQ(a.kernels.size(), b.kernels.size());
    for (size_t i = 0; i < a.kernels.size(); ++i) {
      EXPECT_EQ(a.kernels[i].name, b.kernels[i].name);
      EXPECT_EQ(a.kernels[i].count, b.kernels[i].count);
      EXPECT_EQ(a.kernels[i].total_us, b.kernels[i].total_us);
    }
  }
  test::TempDir dir_;
};

TEST_F(Summary, SaysTheSameOfSlowAndLateRanks) {
  test::SmallJob slow, late, unmarked;
  slow.slow = {{5, 1.3}};
  slow.slow_from = 8;
  late.late_ns = {{2, 3'000'000}};
  unmarked.own_shape = {3};
  unmarked.slow = {{3, 1.4}};
  unmarked.step_rows = false;
  for (const test::SmallJob& job : {slow, late, unmarked}) {
    const std::string whole = dir_ / "whole.sbt";
    test::writeSmallJob(whole, job);
    const std::string summary = summaryOf(whole);
    expectSame(of(whole), of(summary));
    EXPECT_LT(test::rows(summary, "events").size(), test::rows(whole, "events").size() / 20);
  }
}

TEST_F(Summary, SaysTheSameOfOperationsThatOnlyTheirKernelsTell) {
  test::SmallJob job;
  job.table = false;
  job.slow = {{5, 1.3}};
  const std::string whole = dir_ / "whole.sbt";
  test::writeSmallJob(whole, job);
  expectSame(of(whole), of(summaryOf(whole)));
}

TEST_F(Summary, SaysTheSameOfAHang) {
  test::SmallJob job;
  job.never_comes = 3;
  const std::string whole = dir_ / "whole.sbt";
  test::writeSmallJob(whole, job);
  const Analysis a = of(whole), b = of(summaryOf(whole));
  EXPECT_EQ(a.verdict.cause, Cause::hang);
  EXPECT_EQ(a.verdict.text, b.verdict.text);
}

TEST_F(Summary, AddsUpToTheWhole) {
  const std::string whole = dir_ / "whole.sbt";
  test::writeSmallJob(whole, {});
  std::map<std::string, int64_t> count, total, count_here, total_here, in_sketch;
  for (const test::Row& r : test::rows(whole, "events"))
    if (!r.null("dur")) ++count[r.s("name")], total[r.s("name")] += r.i("dur");
  for (const test::Row& r : test::rows(summaryOf(whole), "event_summaries")) {
    count_here[r.s("name")] += r.i("count");
    total_here[r.s("name")] += r.i("total");
    in_sketch[r.s("name")] +=
        r.null("sketch") ? r.i("count") : static_cast<int64_t>(Sketch::parse(r.s("sketch")).count());
  }
  EXPECT_EQ(count, count_here);
  EXPECT_EQ(count, in_sketch);
  EXPECT_EQ(total, total_here);
}

TEST_F(Summary, KeepsWhatIsNotCountedAndTellsASummaryFromAWhole) {
  const std::string whole = dir_ / "whole.sbt";
  test::writeSampleTrace(whole);
  const std::string summary = summaryOf(whole);
  for (const char* table : {"steps", "metrics", "counters", "nodes", "devices", "processes", "clocks", "losses",
                            "metadata", "groups", "sessions", "collectives"})
    EXPECT_EQ(test::rows(whole, table).size(), test::rows(summary, table).size()) << table;
  const std::vector<std::string> notes = of(summary).notes;
  EXPECT_TRUE(
      std::any_of(notes.begin(), notes.end(), [](const std::string& n) { return n.find("summary") != n.npos; }));
  auto reader = trace::Reader::open(summary);
  auto writer = trace::Writer::create(dir_ / "again.sbt");
  EXPECT_FALSE(summarize(**reader, **writer));
}

/// As `run --keep summary` does: what is complete at these times (raw clock), and later the rest.
void keepPieces(const std::string& whole, const std::string& kept, const std::vector<int64_t>& times) {
  constexpr int64_t kLateNs = 4'000'000'000;  // what began later may still come
  auto reader = trace::Reader::open(whole);
  auto names = trace::NameNumbers::load(**reader);
  auto keeper = SummaryKeeper::create(kept);
  ASSERT_TRUE(keeper) << keeper.status().message();
  RowCopy copy(*names, (*keeper)->writer());
  for (const trace::TableInfo& table : trace::tables()) {
    trace::SlotCursor rows(**reader, table, {}, {}, &*names);
    while (rows.next()) ASSERT_TRUE(copy.put(table, rows));
  }
  ASSERT_TRUE(copy.flush());
  for (int64_t time : times) {
    const Status s = (*keeper)->keep(time + kLateNs);
    ASSERT_TRUE(s) << s.message();
  }
  const Status closed = (*keeper)->close();
  ASSERT_TRUE(closed) << closed.message();
}

TEST_F(Summary, SaysTheSameWhenItIsMadePieceByPiece) {
  const std::string whole = dir_ / "whole.sbt", kept = dir_ / "kept.sbt";
  test::SmallJob job;
  job.ranks = 4;
  job.late_ns = {{2, 3'000'000}};
  test::writeSmallJob(whole, job);
  const std::vector<test::Row> steps = test::rows(whole, "steps");
  keepPieces(whole, kept, {steps[steps.size() / 3].i("ts"), steps[2 * steps.size() / 3].i("ts")});
  // What the host was late before the first step of a piece is not known.
  const Analysis a = of(whole), b = of(kept);
  EXPECT_EQ(a.verdict.rank, b.verdict.rank);
  EXPECT_EQ(a.verdict.cause, b.verdict.cause);
  EXPECT_NEAR(a.verdict.cost_pct, b.verdict.cost_pct, 0.1 * a.verdict.cost_pct);
  EXPECT_EQ(a.steps.size(), b.steps.size());
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(test::rows(kept, "steps").size(), steps.size());
  EXPECT_EQ(test::rows(kept, "step_summaries").size(), steps.size());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(std::filesystem::path(kept).parent_path()), {}), 2);
}

/// In a job of 80 s whose steps nobody marked, seconds take the place of steps: in every piece the same ones on all
/// ranks, whole ones but for the first and the last.
TEST_F(Summary, WithoutMarksAPieceIsDividedIntoSeconds) {
  constexpr int64_t kSecond = 1'000'000'000, kStart = kSecond;
  const std::string whole = dir_ / "whole.sbt", kept = dir_ / "kept.sbt";
  test::SmallJob job;
  job.ranks = 4;
  job.ranks_per_node = 2;
  job.step_rows = false;
  job.steps = 200;
  job.transfer_ns = 300'000'000;
  job.late_ns = {{2, 100'000'000}};
  job.clock_ns = {{1, 40 * kSecond + 123'456'789}};
  test::writeSmallJob(whole, job);
  keepPieces(whole, kept, {kStart + 31 * kSecond, kStart + 62 * kSecond, kStart + 100 * kSecond});
  std::map<int64_t, std::vector<std::pair<int64_t, int64_t>>> stretches;  // by rank: start and length
  for (const test::Row& r : test::rows(kept, "step_summaries")) {
    EXPECT_EQ(r.s("steps_by"), "windows");
    EXPECT_TRUE(r.null("step"));
    stretches[r.i("rank")].emplace_back(r.i("ts"), r.i("dur"));
  }
  EXPECT_EQ(stretches.size(), 4u);
  for (auto& [rank, all] : stretches) {
    std::sort(all.begin(), all.end());
    EXPECT_NEAR(static_cast<double>(all.size()), 80, 3) << "rank " << rank;
    for (size_t i = 1; i < all.size(); ++i)
      EXPECT_EQ(all[i].first, all[i - 1].first + all[i - 1].second) << "rank " << rank << ", stretch " << i;
    for (size_t i = 1; i + 1 < all.size(); ++i)
      EXPECT_EQ(all[i].second, kSecond) << "rank " << rank << ", stretch " << i;
  }
  const Analysis a = of(whole), b = of(kept);
  EXPECT_EQ(b.steps_by, "windows");
  EXPECT_EQ(a.verdict.rank, 2) << a.verdict.text;
  EXPECT_EQ(b.verdict.rank, 2) << b.verdict.text;
  EXPECT_EQ(a.verdict.cause, b.verdict.cause) << b.verdict.text;
  EXPECT_NEAR(a.verdict.cost_pct, b.verdict.cost_pct, 0.1 * a.verdict.cost_pct);
  EXPECT_EQ(a.events, b.events);
}

TEST_F(Summary, ABrokenSummaryBreaksNobody) {
  const std::string whole = dir_ / "whole.sbt", broken = dir_ / "broken.sbt";
  test::writeSmallJob(whole, {});
  const std::string summary = summaryOf(whole);
  const auto size = std::filesystem::file_size(summary);
  for (uint64_t cut = size / 16; cut < size; cut += size / 16) {
    std::filesystem::copy_file(summary, broken, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(broken, cut);
    if (auto reader = trace::Reader::open(broken)) (void)analyze(**reader);
  }
  for (const char* table : {"step_summaries", "event_summaries"}) {
    std::filesystem::copy_file(summary, broken, std::filesystem::copy_options::overwrite_existing);
    ASSERT_TRUE(test::damageBlock(broken, table)) << table;
    const Analysis a = of(broken);
    EXPECT_TRUE(std::any_of(a.unknowns.begin(), a.unknowns.end(), [](const std::string& u) {
      return u.find("damaged") != u.npos;
    })) << table;
  }
}

TEST(SketchTest, AddsUpExactlyAndKnowsLengthsToFivePercent) {
  Sketch all, first, second;
  std::mt19937 random(7);
  std::lognormal_distribution<double> lengths(10, 1);
  std::vector<int64_t> values;
  for (int i = 0; i < 10'000; ++i) {
    values.push_back(static_cast<int64_t>(lengths(random)));
    all.add(values.back());
    (i % 3 ? first : second).add(values.back());
  }
  first.add(Sketch::parse(second.text()));
  EXPECT_EQ(all.counts(), first.counts());
  std::sort(values.begin(), values.end());
  for (double part : {0.5, 0.9, 0.99})
    EXPECT_NEAR(all.quantile(part) / static_cast<double>(values[static_cast<size_t>(part * 10'000)]), 1, 0.05);
}

TEST(SketchTest, WhatDoesNotParseIsLeftOut) {
  EXPECT_EQ(Sketch::parse("1:2 x 3: :4 5:-1 9999:1 99999999999999999999:1 7:3").counts(),
            (std::map<int, uint64_t>{{1, 2}, {7, 3}}));
}

TEST(SketchTest, OutliersAreMuchLongerThanNearlyAll) {
  Sketch usual;
  for (int i = 0; i < 90; ++i) usual.add(1000);
  for (int i = 0; i < 30; ++i) usual.add(6000);  // one in four is longer by design
  EXPECT_FALSE(isOutlier(usual, 6000));
  EXPECT_TRUE(isOutlier(usual, 20'000));
  Sketch few;
  few.add(1000);
  EXPECT_FALSE(isOutlier(few, 20'000));
}

TEST(SummaryOfRealJobs, SaysTheSame) {
  const std::string folder = test::sharedDir() + "/traces/h200-jobs/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the recordings are not here";
  test::TempDir dir;
  for (const char* job : {"ddp-data1", "ddp-gc3", "fsdp-slow1", "pp-slow2-default", "fsdp-none", "pp-slow2-light"}) {
    auto whole = trace::Reader::open(folder + job + ".sbt");
    const std::string to = dir / "summary.sbt";
    auto writer = trace::Writer::create(to);
    ASSERT_TRUE(whole && writer);
    const auto done = summarize(**whole, **writer);
    ASSERT_TRUE(done) << done.status().message();
    ASSERT_TRUE((*writer)->close());
    auto summary = trace::Reader::open(to);
    auto a = analyze(**whole), b = analyze(**summary);
    ASSERT_TRUE(a && b);
    EXPECT_EQ(a->verdict.rank, b->verdict.rank) << job;
    EXPECT_EQ(a->verdict.cause, b->verdict.cause) << job;
    ASSERT_EQ(std::isnan(a->verdict.cost_pct), std::isnan(b->verdict.cost_pct)) << job;
    // It does not tell when within a step the work was done that only one rank does.
    if (!std::isnan(a->verdict.cost_pct)) {
      EXPECT_NEAR(a->verdict.cost_pct, b->verdict.cost_pct, 1.5) << job;
    }
    EXPECT_LT((*summary)->fileSize(), 3000 * done->rank_steps) << job;
  }
}

}  // namespace
}  // namespace tracesmith::analysis
