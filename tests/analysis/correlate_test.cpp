// Launches and kernels find each other: whatever the blocks, the ids and the processes are like.
#include "analysis/rows/correlate.hpp"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <random>

#include "support/process.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;
using test::TempDir;

struct Case {
  const char* name;
  uint32_t block_rows;
  bool one_appender;  // blocks with several processes
  int64_t id_step;    // > 1: sparse ids
  bool ranks;         // else only pids are known
  size_t memory_bytes;
};

class CorrelateTest : public ::testing::TestWithParam<Case> {};

TEST_P(CorrelateTest, FindsEveryPairOnce) {
  const Case& c = GetParam();
  TempDir dir;
  constexpr int kProcesses = 5, kLaunches = 700;
  std::map<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>>
      expected;  // process, kernel start → launch start, duration
  {
    auto writer = std::move(*Writer::create(dir / "t.sbt", {.block_rows = c.block_rows}));
    std::mt19937_64 random(3);
    std::vector<std::unique_ptr<Appender>> appenders;
    for (int p = 0; p < kProcesses; ++p)
      if (p == 0 || !c.one_appender) appenders.push_back(writer->appender());
    for (int i = 0; i < kLaunches; ++i)
      for (int p = 0; p < kProcesses; ++p) {
        Appender& out = *appenders[c.one_appender ? 0 : static_cast<size_t>(p)];
        EventRow row;
        row.pid = 4000 + p;
        if (c.ranks) row.rank = p;
        row.correlation = (i + 1) * c.id_step;
        EventRow launch = row, kernel = row;
        launch.type = static_cast<int64_t>(EventType::runtime);
        launch.ts = 1000 * i + p;
        if (random() % 4) launch.dur = static_cast<int64_t>(random() % 50);
        kernel.type = static_cast<int64_t>(random() % 3 ? EventType::kernel : EventType::memcpy);
        kernel.ts = 1000 * i + 500 + p;
        kernel.dur = 7;
        kernel.name = writer->string("k");
        const bool has_launch = random() % 10 != 0, has_kernel = random() % 10 != 0;
        if (has_launch) {
          ASSERT_TRUE(out.append(launch));
        }
        if (has_kernel) {
          ASSERT_TRUE(out.append(kernel));
        }
        if (has_launch && has_kernel) expected[{p, kernel.ts}] = {launch.ts, launch.dur};
        EventRow other = row;  // the same id, but no launch
        other.type = static_cast<int64_t>(EventType::cpu_op);
        other.ts = 77;
        ASSERT_TRUE(out.append(other));
      }
    for (auto& a : appenders) ASSERT_TRUE(a->flush());
    appenders.clear();
    ASSERT_TRUE(writer->close());
  }
  auto reader = std::move(*Reader::open(dir / "t.sbt"));
  std::map<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>> got;
  std::mutex mutex;  // guards got
  CorrelateOptions options;
  options.threads = 3;
  options.memory_bytes = c.memory_bytes;
  Status s = correlate(*reader, options, [&](const Block& block, std::span<const LaunchPair> pairs, size_t worker) {
    EXPECT_LT(worker, 3u);
    std::lock_guard lock(mutex);
    for (const LaunchPair& p : pairs) {
      EXPECT_EQ((*reader->strings(block.stream))->at(p.name), "k");
      EXPECT_EQ(p.dur, 7);
      EXPECT_EQ(p.rank != kNull, c.ranks);
      auto process = (p.ts - 500) % 1000;
      EXPECT_TRUE(got.emplace(std::pair(process, p.ts), std::pair(p.launch_ts, p.launch_dur)).second);
    }
  });
  ASSERT_TRUE(s) << s.message();
  EXPECT_EQ(got, expected);
}

INSTANTIATE_TEST_SUITE_P(Traces, CorrelateTest,
                         ::testing::Values(Case{"OneProcessABlock", 32768, false, 1, true, 256u << 20},
                                           Case{"SmallBlocks", 50, false, 1, true, 256u << 20},
                                           Case{"MixedBlocks", 300, true, 1, true, 256u << 20},
                                           Case{"SparseIds", 32768, false, 1'000'000'007, true, 256u << 20},
                                           Case{"NoRanks", 32768, false, 1, false, 256u << 20},
                                           Case{"NoRanksMixed", 32768, true, 3, false, 256u << 20},
                                           Case{"OneProcessLittleMemory", 32768, false, 1'000'003, true, 60'000},
                                           Case{"LittleMemory", 300, true, 1'000'003, true, 60'000}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Correlate, EmptyTrace) {
  TempDir dir;
  ASSERT_TRUE((*Writer::create(dir / "t.sbt"))->close());
  auto reader = std::move(*Reader::open(dir / "t.sbt"));
  EXPECT_TRUE(correlate(*reader, {}, [](const Block&, std::span<const LaunchPair>, size_t) { FAIL(); }));
}

}  // namespace
}  // namespace tracesmith::analysis
