// Rings that the probe wrote in real torch jobs, 4 ranks on one GPU: what the collector makes of them. The files are
// compressed twice, because a ring is mostly empty.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "capture/collect/collector.hpp"
#include "support/process.hpp"
#include "support/table.hpp"
#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::capture {
namespace {

struct Job {
  const char* name;
  bool collectives;  // its operations are collectives, which all ranks leave together
  double step_ms;    // as the job measured it, the median of the last four of ten
};

class RealRings : public ::testing::TestWithParam<Job> {};

TEST_P(RealRings, EveryOperationHasItsKernelAndMeetsTheOthers) {
  test::TempDir dir;
  const std::string from = std::string(TRACESMITH_SOURCE_DIR "/tests/data/rings/") + GetParam().name;
  const std::string to = dir / "job.sbt";
  {
    auto writer = trace::Writer::create(to);
    ASSERT_TRUE(writer) << writer.status().message();
    Collector collector(**writer, "node0");
    for (const char* rank : {"0", "1", "2", "3"}) {
      const std::string ring = dir / (std::string(rank) + ".ring");
      const std::string unpack =
          "gzip -dc " + from + "/" + rank + ".ring.gz.gz | gzip -dc | cp --sparse=always /dev/stdin " + ring;
      ASSERT_EQ(std::system(unpack.c_str()), 0);
      const Status followed = collector.follow(ring, false);
      ASSERT_TRUE(followed) << followed.message();
    }
    ASSERT_TRUE(collector.snapshot());
    ASSERT_TRUE(collector.finish());
    ASSERT_TRUE((*writer)->close());
  }
  struct Meeting {
    int64_t ranks = 0, size = 0, last_start = INT64_MIN, first_end = INT64_MAX;
  };
  std::map<std::pair<std::string, int64_t>, Meeting> meetings;  // by communicator and number
  size_t operations = 0;
  for (const test::Row& r : test::rows(to, "collectives")) {
    ++operations;
    ASSERT_FALSE(r.null("ts")) << r.s("op") << " " << r.i("seq") << " of rank " << r.i("rank") << " has no kernel";
    if (!r.null("peer")) continue;
    Meeting& m = meetings[{r.s("comm"), r.i("seq")}];
    ++m.ranks;
    m.size = r.i("group_size");
    m.last_start = std::max(m.last_start, r.i("ts"));
    m.first_end = std::min(m.first_end, r.i("ts") + r.i("dur"));
  }
  EXPECT_GT(operations, 40u);
  EXPECT_EQ(meetings.size() > 10, GetParam().collectives);
  for (const auto& [key, m] : meetings) {
    EXPECT_EQ(m.ranks, m.size) << key.first << " " << key.second;
    EXPECT_GE(m.first_end, m.last_start) << key.first << " " << key.second << ": a rank left before another came";
  }
  EXPECT_FALSE(test::losses(to).contains("operations without a kernel"));
  auto reader = trace::Reader::open(to);
  ASSERT_TRUE(reader);
  auto analysis = analysis::analyze(**reader);
  ASSERT_TRUE(analysis) << analysis.status().message();
  EXPECT_EQ(analysis->ranks, 4);
  EXPECT_EQ(analysis->inconsistent, 0u);
  // It marked none of its ten steps. Those in front that warm up are start-up.
  EXPECT_LE(analysis->steps.size(), 10u);
  EXPECT_GE(analysis->steps.size(), 8u);
  EXPECT_NEAR(analysis->step_us / 1000, GetParam().step_ms, 0.03 * GetParam().step_ms);
  EXPECT_NE(analysis->verdict.cause, Cause::hang) << analysis->verdict.text;
}

INSTANTIATE_TEST_SUITE_P(Jobs, RealRings,
                         ::testing::Values(Job{"ddp", true, 67.5}, Job{"fsdp", true, 52.3}, Job{"pp-raw", false, 104.5},
                                           Job{"groups", true, 15.1}),
                         [](const auto& p) {
                           std::string name = p.param.name;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace tracesmith::capture
