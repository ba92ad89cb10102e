// The rows of one device in a stretch of time.
#include "analysis/rows/window.hpp"

#include <gtest/gtest.h>

#include "support/process.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;
using test::TempDir;

TEST(Window, GivesAllColumnsOfTheRowsThatOverlap) {
  TempDir dir;
  {
    auto writer = std::move(*Writer::create(dir / "t.sbt", {.block_rows = 64}));
    auto appender = writer->appender();
    for (int i = 0; i < 1000; ++i)
      for (int node = 0; node < 3; ++node) {
        EventRow row;
        row.node = writer->string("node" + std::to_string(node));
        row.device = i % 2;
        row.type = static_cast<int64_t>(EventType::kernel);
        row.ts = 100 * i;
        row.dur = 150;  // into the next one
        row.name = writer->string("kernel" + std::to_string(i));
        row.args = appender->text("{\"i\":" + std::to_string(i) + "}");
        ASSERT_TRUE(appender->append(row));
      }
    ASSERT_TRUE(appender->flush());
    appender.reset();
    ASSERT_TRUE(writer->close());
  }
  auto reader = std::move(*Reader::open(dir / "t.sbt"));
  auto rows = window(*reader, {"node1", 0, 50'020, 50'300});
  ASSERT_TRUE(rows) << rows.status().message();
  ASSERT_EQ(rows->size(), 2u);  // 500, which began before, and 502
  EXPECT_EQ((*rows)[0].row.ts, 50'000);
  EXPECT_EQ((*rows)[0].row.ts_end, 50'150);
  EXPECT_EQ((*rows)[0].strings->at((*rows)[0].row.name), "kernel500");
  EXPECT_EQ((*rows)[0].args, "{\"i\":500}");
  EXPECT_EQ((*rows)[1].row.ts, 50'200);
  EXPECT_EQ((*rows)[1].row.stream, kNull);
  EXPECT_EQ(window(*reader, {"nowhere", 0, 0, 1'000'000})->size(), 0u);
  EXPECT_EQ(window(*reader, {"node1", 7, 0, 1'000'000})->size(), 0u);
  EXPECT_EQ(window(*reader, {"node1", 1, 0, 1'000'000})->size(), 500u);
}

}  // namespace
}  // namespace tracesmith::analysis
