// How deep rows are nested.
#include "server/timeline/levels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tracesmith::server {
namespace {

TEST(Levels, NestedRowsLieUnderThoseAroundThem) {
  Levels levels;
  EXPECT_EQ(levels.of(0, 100), 0u);
  EXPECT_EQ(levels.of(0, 50), 1u);
  EXPECT_EQ(levels.of(10, 20), 2u);
  EXPECT_EQ(levels.of(30, 5), 2u);  // begins when the one before ends
  EXPECT_EQ(levels.of(50, 10), 1u);
  EXPECT_EQ(levels.of(100, 1), 0u);
}

TEST(Levels, RowsThatOverlapDoNotCoverEachOther) {
  Levels levels;
  EXPECT_EQ(levels.of(0, 10), 0u);
  EXPECT_EQ(levels.of(5, 10), 1u);
  EXPECT_EQ(levels.of(12, 10), 0u);  // the first has ended, the second has not
}

TEST(DepthCounter, LongTracksInAnyOrderAreAsDeepAsTheyAre) {
  // One row around all, ten thousand in it, each with two more inside of it.
  std::vector<std::pair<int64_t, int64_t>> rows{{0, 10'000'000}};
  for (int64_t i = 0; i < 10'000; ++i)
    for (int64_t level = 0; level < 3; ++level) rows.emplace_back(i * 1000 + level, 900 - 10 * level);
  std::mt19937 random(7);
  for (const bool mixed : {false, true}) {
    if (mixed) std::shuffle(rows.begin(), rows.end(), random);
    DepthCounter counter, other;
    for (size_t i = 0; i < rows.size(); ++i) (i % 2 ? counter : other).add(rows[i].first, rows[i].second);
    counter.take(other);
    EXPECT_LE(counter.depth(), 4u);
    EXPECT_GE(counter.depth(), mixed ? 2u : 3u);
  }
  DepthCounter one;
  for (const auto& [ts, dur] : rows) one.add(ts, dur);
  std::sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.first < b.first; });
  DepthCounter sorted;
  for (const auto& [ts, dur] : rows) sorted.add(ts, dur);
  EXPECT_EQ(sorted.depth(), 4u);
}

}  // namespace
}  // namespace tracesmith::server
