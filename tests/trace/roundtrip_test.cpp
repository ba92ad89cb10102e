// What goes into a trace comes out of it: every table, NULLs, sizes of blocks, several threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <thread>

#include "support/process.hpp"
#include "tracesmith/trace/reader.hpp"
#include "tracesmith/trace/scan.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::trace {
namespace {

using test::TempDir;

std::unique_ptr<Writer> create(const std::string& path, WriterOptions options = {}) {
  Result<std::unique_ptr<Writer>> writer = Writer::create(path, options);
  EXPECT_TRUE(writer) << writer.status().message();
  return std::move(*writer);
}

std::unique_ptr<Reader> open(const std::string& path) {
  Result<std::unique_ptr<Reader>> reader = Reader::open(path);
  EXPECT_TRUE(reader) << reader.status().message();
  return std::move(*reader);
}

/// Every row of a table as slots; strings and texts as their text.
std::vector<std::vector<std::string>> rowsOf(const Reader& reader, const TableInfo& table) {
  std::vector<std::vector<std::string>> out;
  BlockDecoder decoder(reader);
  for (const Block* block : reader.blocks(table)) {
    size_t first = out.size();
    out.resize(first + block->rows);
    const Strings* strings = *reader.strings(block->stream);
    for (size_t c = 0; c < table.columns.size(); ++c) {
      ColumnData data;
      Status s = decoder.decode(*block, static_cast<int>(c), data);
      EXPECT_TRUE(s) << s.message();
      Kind kind = table.columns[c].kind;
      for (size_t i = 0; i < block->rows; ++i) {
        int64_t slot = slotAt(data, kind, i);
        std::string text = slot == kNull ? "NULL" : std::to_string(slot);
        if (slot != kNull && (kind == Kind::Str || kind == Kind::Launch)) text = strings->at(slot);
        if (slot != kNull && kind == Kind::Text) text = data.textAt(i);
        out[first + i].push_back(text);
      }
    }
  }
  return out;
}

TEST(RoundTrip, EmptyTraceIsValidAndClosed) {
  TempDir dir;
  auto writer = create(dir / "t.sbt");
  ASSERT_TRUE(writer->close());
  auto reader = open(dir / "t.sbt");
  EXPECT_TRUE(reader->closed());
  EXPECT_EQ(reader->rows(tableOf<EventRow>()), 0u);
  EXPECT_TRUE(reader->damage().empty());
}

TEST(RoundTrip, EveryTableWithRandomRowsAndNulls) {
  TempDir dir;
  for (uint32_t block_rows : {1u, 7u, 1000u}) {
    std::mt19937_64 random(block_rows);
    std::vector<std::vector<std::vector<std::string>>> expected(tables().size());
    {
      auto writer = create(dir / "t.sbt", {.block_rows = block_rows});
      auto appender = writer->appender();
      for (size_t t = 0; t < tables().size(); ++t) {
        const TableInfo& table = tables()[t];
        for (int r = 0; r < 300; ++r) {
          std::vector<int64_t> slots;
          std::vector<std::string> texts;
          for (const ColumnInfo& c : table.columns) {
            int64_t slot = kNull;
            std::string text = "NULL";
            if (random() % 4 != 0) {
              std::string word = "word" + std::to_string(random() % 50);
              switch (c.kind) {
                case Kind::Int:
                  slot = static_cast<int64_t>(random() >> (random() % 63)) - (1 << 20);
                  break;
                case Kind::Int32:
                  slot = static_cast<int32_t>(random());
                  break;
                case Kind::Real:
                  slot = real(static_cast<double>(random()) / 3);
                  break;
                case Kind::Type:
                  slot = static_cast<int64_t>(random() % kEventTypes);
                  break;
                case Kind::Str:
                  slot = writer->string(text = word);
                  break;
                case Kind::Text:
                  slot = appender->text(text = word);
                  break;
                case Kind::Launch:
                  slot = writer->string(text = "1,2,3,4,5,6,7,,9");
                  break;
                case Kind::Sum:
                  break;
              }
              if (slot != kNull && text == "NULL") text = std::to_string(slot);
            }
            if (c.kind == Kind::Sum) {
              text = slots[slots.size() - 1] == kNull || slots[slots.size() - 2] == kNull
                         ? "NULL"
                         : std::to_string(static_cast<int64_t>(static_cast<uint64_t>(slots[slots.size() - 1]) +
                                                               static_cast<uint64_t>(slots[slots.size() - 2])));
            }
            slots.push_back(slot);
            texts.push_back(text);
          }
          ASSERT_TRUE(appender->appendSlots(table, slots.data()));
          expected[t].push_back(texts);
        }
      }
      ASSERT_TRUE(appender->flush());
      appender.reset();
      ASSERT_TRUE(writer->close());
    }
    auto reader = open(dir / "t.sbt");
    for (size_t t = 0; t < tables().size(); ++t) {
      auto got = rowsOf(*reader, tables()[t]);
      std::sort(got.begin(), got.end());  // host and device rows of events are in different blocks
      std::sort(expected[t].begin(), expected[t].end());
      EXPECT_EQ(got, expected[t]) << tables()[t].name << " with blocks of " << block_rows;
    }
    EXPECT_EQ(reader->damageSummary(), "");
  }
}

TEST(RoundTrip, ManyThreadsOneFile) {
  TempDir dir;
  auto writer = create(dir / "t.sbt", {.block_rows = 500});
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      auto appender = writer->appender();
      for (int i = 0; i < 5000; ++i) {
        EventRow row;
        row.ts = i;
        row.rank = t;
        row.type = static_cast<int64_t>(i % 2 ? EventType::kernel : EventType::runtime);
        row.name = writer->string("name" + std::to_string((t * 5000 + i) % 777));
        EXPECT_TRUE(appender->append(row));
      }
      EXPECT_TRUE(appender->flush());
    });
  for (auto& t : threads) t.join();
  ASSERT_TRUE(writer->close());
  auto reader = open(dir / "t.sbt");
  EXPECT_EQ(reader->rows(tableOf<EventRow>()), 40000u);
  int64_t sum = 0;
  for (auto& row : rowsOf(*reader, tableOf<EventRow>())) {
    sum += std::stoll(row[events::ts]);
    EXPECT_EQ(row[events::name].substr(0, 4), "name");
  }
  EXPECT_EQ(sum, 8ll * 5000 * 4999 / 2);
}

TEST(RoundTrip, GrowingFileIsReadWhileWritten) {
  TempDir dir;
  auto writer = create(dir / "t.sbt", {.block_rows = 10});
  auto appender = writer->appender();
  auto add = [&](int n) {
    for (int i = 0; i < n; ++i) {
      EventRow row;
      row.ts = i;
      row.type = 0;
      row.name = writer->string("n" + std::to_string(i));
      ASSERT_TRUE(appender->append(row));
    }
  };
  add(25);
  auto reader = open(dir / "t.sbt");
  EXPECT_EQ(reader->rows(tableOf<EventRow>()), 20u);
  EXPECT_FALSE(reader->closed());
  add(10);
  ASSERT_TRUE(appender->flush());
  ASSERT_TRUE(writer->close());
  ASSERT_TRUE(reader->refresh());
  EXPECT_EQ(reader->rows(tableOf<EventRow>()), 35u);
  EXPECT_TRUE(reader->closed());
  EXPECT_EQ((*reader->strings(0))->at(24), "n24");
}

TEST(RoundTrip, WholeOrAbsentLeavesNothingBehind) {
  TempDir dir;
  { auto writer = create(dir / "t.sbt", {.whole_or_absent = true}); }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(Scan, SelectsByTimeRankAndType) {
  TempDir dir;
  auto writer = create(dir / "t.sbt", {.block_rows = 100});
  auto appender = writer->appender();
  for (int i = 0; i < 1000; ++i) {
    EventRow row;
    row.ts = i * 10;
    row.dur = 5;
    row.rank = i % 4;
    row.type = static_cast<int64_t>(i % 2 ? EventType::kernel : EventType::runtime);
    ASSERT_TRUE(appender->append(row));
  }
  ASSERT_TRUE(appender->flush());
  appender.reset();
  ASSERT_TRUE(writer->close());
  auto reader = open(dir / "t.sbt");
  Selection s;
  s.from = 1003;  // row 100 starts at 1000 and ends at 1005: it overlaps
  s.to = 1100;
  s.ranks = {0, 1};
  Scan scan(*reader, tableOf<EventRow>(), s, {events::ts});
  EXPECT_EQ(scan.blocks().size(), 2u);  // of ten: one of host rows, one of device rows
  std::vector<int64_t> got;
  while (scan.next())
    for (uint32_t r : scan.rows()) got.push_back(scan.column(events::ts).data<int64_t>()[r]);
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, (std::vector<int64_t>{1000, 1010, 1040, 1050, 1080, 1090}));
}

}  // namespace
}  // namespace tracesmith::trace
