// tests/data/golden-v1.sbt was written by the first version of the format and is never written again:
// whatever changes in the code, these bytes must give these values.
// (TRACESMITH_WRITE_GOLDEN=path writes what this version would write, for a new golden file beside the old one.)
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/process.hpp"
#include "tracesmith/trace/reader.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::trace {
namespace {

constexpr int kEvents = 300;

void writeGolden(const std::string& path) {
  WriterOptions options{.block_rows = 200, .created_ns = 1'700'000'000'000'000'000};
  for (size_t i = 0; i < 16; ++i) options.trace_id[i] = static_cast<uint8_t>(i + 1);
  Result<std::unique_ptr<Writer>> writer = Writer::create(path, options);
  ASSERT_TRUE(writer);
  auto a = (*writer)->appender();
  for (int i = 0; i < kEvents; ++i) {
    EventRow row;
    row.ts = 1000 + i * i;
    row.dur = i % 10 == 0 ? kNull : 50 + i % 7;
    row.type = i % 3 ? 0 : 3;
    row.name = (*writer)->string("void kernel<" + std::to_string(i % 4) + ">(\"x\")");
    row.rank = -1 + i / 100;
    row.correlation = i % 2 ? i : kNull;
    row.bytes = i == 7 ? INT64_MAX : kNull;
    row.launch = i % 3 ? (*writer)->launch({.grid_x = i % 5, .block_x = 256, .registers = 32}) : kNull;
    if (i % 50 == 0) row.args = a->text("{\"i\":" + std::to_string(i) + "}");
    ASSERT_TRUE(a->append(row));
  }
  MetricRow metric;
  metric.ts = -5;
  metric.name = (*writer)->string("power");
  metric.value = real(-1.5);
  ASSERT_TRUE(a->append(metric));
  metric.value = real(650.25);
  ASSERT_TRUE(a->append(metric));
  ASSERT_TRUE(a->flush());
  a.reset();
  ASSERT_TRUE((*writer)->close());
}

void expectGolden(const std::string& path) {
  Result<std::unique_ptr<Reader>> opened = Reader::open(path);
  ASSERT_TRUE(opened) << opened.status().message();
  const Reader& reader = **opened;
  EXPECT_TRUE(reader.closed());
  EXPECT_EQ(reader.traceId(), "0102030405060708090a0b0c0d0e0f10");
  EXPECT_EQ(reader.createdNs(), 1'700'000'000'000'000'000);
  EXPECT_EQ(reader.rows(tableOf<EventRow>()), static_cast<uint64_t>(kEvents));
  const Strings& strings = **reader.strings(0);
  BlockDecoder decoder(reader);
  ColumnData c[events::kColumns];
  for (const Block* block : reader.blocks(tableOf<EventRow>())) {
    for (int k = 0; k < events::kColumns; ++k) ASSERT_TRUE(decoder.decode(*block, k, c[k]));
    auto slot = [&](int k, size_t r) { return slotAt(c[k], block->table->columns[static_cast<size_t>(k)].kind, r); };
    for (size_t r = 0; r < block->rows; ++r) {
      int64_t i = 0;
      while (1000 + i * i < slot(events::ts, r)) ++i;
      ASSERT_EQ(slot(events::ts, r), 1000 + i * i);
      EXPECT_EQ(slot(events::dur, r), i % 10 == 0 ? kNull : 50 + i % 7);
      EXPECT_EQ(slot(events::ts_end, r), i % 10 == 0 ? kNull : 1000 + i * i + 50 + i % 7);
      EXPECT_EQ(slot(events::type, r), i % 3 ? 0 : 3);
      EXPECT_EQ(strings.at(slot(events::name, r)), "void kernel<" + std::to_string(i % 4) + ">(\"x\")");
      EXPECT_EQ(slot(events::rank, r), -1 + i / 100);
      EXPECT_EQ(slot(events::correlation, r), i % 2 ? i : kNull);
      EXPECT_EQ(slot(events::bytes, r), i == 7 ? INT64_MAX : kNull);
      EXPECT_EQ(slot(events::stream, r), kNull);
      if (i % 3) {
        EXPECT_EQ(LaunchShape::parse(strings.at(slot(events::launch, r))),
                  (LaunchShape{.grid_x = static_cast<int32_t>(i % 5), .block_x = 256, .registers = 32}));
      }
      if (i % 50 == 0) {
        EXPECT_EQ(c[events::args].textAt(r), "{\"i\":" + std::to_string(i) + "}");
      }
    }
  }
  const Block* block = reader.blocks(tableOf<MetricRow>()).at(0);
  ASSERT_TRUE(decoder.decode(*block, metrics::value, c[0]));
  EXPECT_EQ(c[0].realAt(0), -1.5);
  EXPECT_EQ(c[0].realAt(1), 650.25);
}

TEST(Golden, FirstVersionOfTheFormatIsReadForEver) {
  if (const char* path = std::getenv("TRACESMITH_WRITE_GOLDEN")) writeGolden(path);
  expectGolden(std::string(TRACESMITH_SOURCE_DIR) + "/tests/data/golden-v1.sbt");
}

TEST(Golden, ThisVersionWritesTheSameValues) {
  test::TempDir dir;
  writeGolden(dir / "g.sbt");
  expectGolden(dir / "g.sbt");
}

}  // namespace
}  // namespace tracesmith::trace
