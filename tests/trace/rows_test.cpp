#include "trace/rows.hpp"

#include <gtest/gtest.h>

#include "support/process.hpp"
#include "trace/clocks.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::trace {
namespace {

/// 2000 steps of two nodes in several blocks, and a clock for each node.
class RowsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto writer = Writer::create(dir_ / "t.sbt", {.block_rows = 700});
    ASSERT_TRUE(writer);
    auto out = (*writer)->appender();
    for (int i = 0; i < 2000; ++i) {
      StepRow row;
      row.ts = 1000 * i;
      row.dur = 10;
      row.rank = i % 2;
      row.node = (*writer)->string(i % 2 ? "odd" : "even");
      row.step = i;
      if (i % 3 == 0) row.name = (*writer)->string("step " + std::to_string(i));
      ASSERT_TRUE(out->append(row));
    }
    for (const char* node : {"even", "odd"}) {
      ClockRow clock;
      clock.node = (*writer)->string(node);
      clock.ts_from = 0;
      clock.offset_ns = node[0] == 'o' ? 5'000'000 : 1'000'000;
      clock.bound_ns = 10;
      clock.method = (*writer)->string("exchange");
      ASSERT_TRUE(out->append(clock));
    }
    ASSERT_TRUE(out->flush());
    ASSERT_TRUE((*writer)->close());
    auto reader = Reader::open(dir_ / "t.sbt");
    ASSERT_TRUE(reader);
    reader_ = std::move(*reader);
  }
  test::TempDir dir_;
  std::unique_ptr<Reader> reader_;
};

TEST_F(RowsTest, OnlyTheColumnsAskedForAreThere) {
  RowCursor<StepRow> rows(*reader_, {steps::step, steps::name});
  int i = 0;
  for (; rows.next(); ++i) {
    EXPECT_EQ(rows.row().step, i);
    EXPECT_EQ(rows.row().ts, kNull);
    EXPECT_EQ(rows.row().name == kNull, i % 3 != 0);
    if (i % 3 == 0) {
      EXPECT_EQ(rows.text(steps::name), "step " + std::to_string(i));
      EXPECT_EQ(rows.strings().at(rows.row().name), rows.text(steps::name));
    } else {
      EXPECT_EQ(rows.text(steps::name).data(), nullptr);
    }
  }
  EXPECT_EQ(i, 2000);
  EXPECT_TRUE(rows.status());
  EXPECT_FALSE(rows.next()) << "it stays at the end";
}

TEST_F(RowsTest, NamesHaveOneNumbering) {
  Result<NameNumbers> names = NameNumbers::load(*reader_);
  ASSERT_TRUE(names);
  int rows = 0;
  EXPECT_TRUE(eachRow<StepRow>(*reader_, *names, {steps::node, steps::step}, [&](const StepRow& row, auto text) {
    EXPECT_EQ(names->text(static_cast<uint32_t>(row.node)), row.step % 2 ? "odd" : "even");
    EXPECT_EQ(text(steps::node), names->text(static_cast<uint32_t>(row.node)));
    ++rows;
  }));
  EXPECT_EQ(rows, 2000);
}

TEST_F(RowsTest, ASelectionIsOnTheCommonClock) {
  Result<std::unique_ptr<TraceClock>> clock = TraceClock::load(*reader_);
  ASSERT_TRUE(clock);
  Selection selection;
  selection.clock = clock->get();
  selection.from = 5'000'000 + 3000;
  selection.to = 5'000'000 + 7000;
  RowCursor<StepRow> rows(*reader_, {steps::ts, steps::rank, steps::step}, selection);
  std::vector<int64_t> odd;
  while (rows.next()) {
    EXPECT_GE(rows.row().ts + 10, selection.from);
    EXPECT_LT(rows.row().ts, selection.to);
    EXPECT_EQ(rows.row().ts, 1000 * rows.row().step + (rows.row().rank ? 5'000'000 : 1'000'000));
    if (rows.row().rank) odd.push_back(rows.row().step);
  }
  EXPECT_EQ(odd, (std::vector<int64_t>{3, 5}));
}

TEST_F(RowsTest, BlocksMayBeLeftOut) {
  RowCursor<StepRow> rows(*reader_, {steps::step});
  ASSERT_GE(rows.blocks().size(), 3u);
  rows.blocks().erase(rows.blocks().begin());
  ASSERT_TRUE(rows.next());
  EXPECT_GT(rows.row().step, 0);
}

TEST(Sink, GetsTheBytesOfTheFile) {
  test::TempDir dir;
  auto write = [](Writer& writer) {
    auto out = writer.appender();
    for (int i = 0; i < 100; ++i) {
      StepRow row;
      row.ts = i;
      row.name = writer.string("step");
      ASSERT_TRUE(out->append(row));
    }
    ASSERT_TRUE(out->flush());
    ASSERT_TRUE(writer.sync());
    ASSERT_TRUE(writer.close());
  };
  WriterOptions options;
  options.trace_id.fill(7);
  options.created_ns = 1;
  std::string bytes;
  std::vector<size_t> pieces;
  auto memory = Writer::create(
      [&](std::string_view piece) {
        bytes += piece;
        pieces.push_back(piece.size());
        return Status();
      },
      options);
  ASSERT_TRUE(memory);
  write(**memory);
  auto file = Writer::create(dir / "t.sbt", options);
  ASSERT_TRUE(file);
  write(**file);
  EXPECT_EQ(bytes, test::readFile(dir / "t.sbt"));
  EXPECT_EQ((*memory)->bytesWritten(), bytes.size());
  EXPECT_GE(pieces.size(), 5u) << "header, schema, strings, rows, end";
}

TEST(Sink, ThatFailsStopsTheWriter) {
  int calls = 0;
  auto writer = Writer::create([&](std::string_view) { return ++calls > 2 ? Status::io("full") : Status(); });
  ASSERT_TRUE(writer);
  auto out = (*writer)->appender();
  StepRow row;
  row.ts = 1;
  ASSERT_TRUE(out->append(row));
  EXPECT_EQ(out->flush().message(), "full");
  EXPECT_EQ((*writer)->close().message(), "full");
}

}  // namespace
}  // namespace tracesmith::trace
