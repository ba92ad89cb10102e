// Damaged, truncated, hostile and foreign files: what is good is read, what is not is named, nothing crashes.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "support/process.hpp"
#include "trace/layout.hpp"
#include "tracesmith/trace/reader.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::trace {
namespace {

using test::readFile;
using test::TempDir;
using test::writeFile;

constexpr int kBlocks = 10, kRowsPerBlock = 100;

/// A trace of ten blocks of kernels, ts counting up, names in the string table.
std::string makeTrace(const std::string& path, bool close = true) {
  Result<std::unique_ptr<Writer>> writer = Writer::create(path, {.block_rows = kRowsPerBlock});
  {
    auto appender = (*writer)->appender();
    for (int i = 0; i < kBlocks * kRowsPerBlock; ++i) {
      EventRow row;
      row.ts = 1000 + i * 7;
      row.dur = i % 13;
      row.type = 0;
      row.name = (*writer)->string("kernel" + std::to_string(i % 5));
      row.args = appender->text("{\"i\":" + std::to_string(i) + "}");
      EXPECT_TRUE(appender->append(row));
    }
    EXPECT_TRUE(appender->flush());
  }
  if (close) {
    EXPECT_TRUE((*writer)->close());
  }
  return readFile(path);
}

/// Reads everything there is; the number of rows whose columns all decoded.
uint64_t readAll(const Reader& reader) {
  uint64_t rows = 0;
  BlockDecoder decoder(reader);
  ColumnData data;
  for (const Block& block : reader.blocks()) {
    bool good = true;
    for (size_t c = 0; c < block.table->columns.size() && good; ++c)
      good = decoder.decode(block, static_cast<int>(c), data).ok();
    if (good) rows += block.rows;
    (void)reader.strings(block.stream);
  }
  return rows;
}

struct Opened {
  Status status;
  std::unique_ptr<Reader> reader;
};

Opened openBytes(const TempDir& dir, const std::string& bytes) {
  writeFile(dir / "x.sbt", bytes);
  Result<std::unique_ptr<Reader>> reader = Reader::open(dir / "x.sbt");
  if (!reader) return {reader.status(), nullptr};
  return {Status(), std::move(*reader)};
}

TEST(Damage, EveryTruncationKeepsAllWholeBlocks) {
  TempDir dir;
  const std::string bytes = makeTrace(dir / "t.sbt");
  auto whole = openBytes(dir, bytes);
  std::vector<uint64_t> ends;
  for (const Block& b : whole.reader->blocks()) ends.push_back(b.offset + b.size);
  for (size_t cut = 64; cut < bytes.size(); cut += 37) {
    Opened o = openBytes(dir, bytes.substr(0, cut));
    ASSERT_TRUE(o.reader) << o.status.message();
    uint64_t expected = 0;
    for (uint64_t e : ends) expected += e <= cut ? kRowsPerBlock : 0;
    EXPECT_EQ(readAll(*o.reader), expected) << "cut at " << cut;
    EXPECT_FALSE(o.reader->closed());
    EXPECT_EQ(o.reader->damageSummary(), "") << "an unfinished end is no damage";
  }
}

TEST(Damage, HeaderTruncationsAndForeignFilesGiveOneClearLine) {
  TempDir dir;
  const std::string bytes = makeTrace(dir / "t.sbt");
  EXPECT_NE(openBytes(dir, "").status.message().find("is empty"), std::string::npos);
  EXPECT_NE(openBytes(dir, "INVALID").status.message().find("not an SBT trace (offset 0"), std::string::npos);
  for (size_t cut = 8; cut < 64; ++cut)
    EXPECT_NE(openBytes(dir, bytes.substr(0, cut)).status.message().find("ends inside its header"), std::string::npos);
  std::string future = bytes;
  future[4] = 2;
  EXPECT_NE(openBytes(dir, future).status.message().find("newer TraceSmith (format 2.0"), std::string::npos);
  std::string old = bytes;
  old[4] = 0;
  EXPECT_NE(openBytes(dir, old).status.message().find("SBT v0.1"), std::string::npos);
  std::string flipped = bytes;
  flipped[20] ^= 1;
  EXPECT_NE(openBytes(dir, flipped).status.message().find("damaged header"), std::string::npos);
  EXPECT_EQ(Reader::open(dir / "absent.sbt").status().code(), Code::kNotFound);
  EXPECT_FALSE(Reader::open(dir.path()).ok());
}

TEST(Damage, OneFlippedBitLosesAtMostItsBlockAndIsNamed) {
  TempDir dir;
  const std::string bytes = makeTrace(dir / "t.sbt");
  auto whole = openBytes(dir, bytes);
  const uint64_t first = whole.reader->blocks()[0].offset;
  std::mt19937 random(4);
  for (int round = 0; round < 400; ++round) {
    std::string bad = bytes;
    size_t at = first + random() % (bytes.size() - first);
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    Opened o = openBytes(dir, bad);
    ASSERT_TRUE(o.reader);
    uint64_t rows = readAll(*o.reader);
    EXPECT_GE(rows, static_cast<uint64_t>((kBlocks - 1) * kRowsPerBlock)) << "flipped at " << at;
    if (rows < kBlocks * kRowsPerBlock) {
      std::vector<Damage> damage = o.reader->damage();
      ASSERT_FALSE(damage.empty()) << at;
      EXPECT_LE(damage[0].offset, at);
      EXPECT_GT(damage[0].offset + damage[0].bytes, at);
    }
  }
}

TEST(Damage, LostBlockInTheMiddleIsNoticedByItsNumber) {
  TempDir dir;
  const std::string bytes = makeTrace(dir / "t.sbt");
  auto whole = openBytes(dir, bytes);
  const Block& b = whole.reader->blocks()[3];
  Opened o = openBytes(dir, bytes.substr(0, b.offset) + bytes.substr(b.offset + b.size));
  ASSERT_TRUE(o.reader);
  EXPECT_EQ(readAll(*o.reader), static_cast<uint64_t>((kBlocks - 1) * kRowsPerBlock));
  EXPECT_NE(o.reader->damageSummary().find("1 blocks are missing"), std::string::npos);
}

TEST(Damage, ZerosAtTheEndArePowerCutNotDamage) {
  TempDir dir;
  const std::string bytes = makeTrace(dir / "t.sbt", false);
  Opened o = openBytes(dir, bytes + std::string(10000, '\0'));
  EXPECT_EQ(readAll(*o.reader), static_cast<uint64_t>(kBlocks * kRowsPerBlock));
  EXPECT_EQ(o.reader->damageSummary(), "");
  EXPECT_EQ(o.reader->unfinishedBytes(), 10000u);
}

/// Rewrites a field of block `index` and seals the block again: hostile, not damaged.
template <typename Change>
std::string forge(const std::string& bytes, uint64_t offset, Change change) {
  std::string out = bytes;
  BlockHeader h;
  std::memcpy(&h, out.data() + offset, sizeof h);
  std::vector<ColumnEntry> entries(h.columns);
  std::memcpy(entries.data(), out.data() + offset + sizeof h, h.directory_size);
  change(h, entries);
  std::memcpy(out.data() + offset + sizeof h, entries.data(), entries.size() * sizeof(ColumnEntry));
  std::memcpy(out.data() + offset, &h, sizeof h);
  h.checksum = blockChecksum(out.data() + offset, static_cast<uint32_t>(entries.size() * sizeof(ColumnEntry)));
  std::memcpy(out.data() + offset, &h, sizeof h);
  return out;
}

TEST(Hostile, ForgedFieldsAreRefusedWithoutCrashOrMemory) {
  TempDir dir;
  const std::string bytes = makeTrace(dir / "t.sbt");
  auto whole = openBytes(dir, bytes);
  const uint64_t at = whole.reader->blocks()[2].offset;
  using E = std::vector<ColumnEntry>;
  const std::vector<std::pair<const char*, std::function<void(BlockHeader&, E&)>>> changes = {
      {"rows", [](BlockHeader& h, E&) { h.rows = 0xffffffff; }},
      {"many rows",
       [](BlockHeader& h, E& e) {
         h.rows = 1 << 20;
         for (auto& c : e) c.values = 1 << 20;
       }},
      {"size", [](BlockHeader& h, E&) { h.block_size = 0xfffffff8; }},
      {"tiny size", [](BlockHeader& h, E&) { h.block_size = 8; }},
      {"zero size", [](BlockHeader& h, E&) { h.block_size = 0; }},
      {"directory", [](BlockHeader& h, E&) { h.directory_size = 0xffffffff; }},
      {"offset", [](BlockHeader&, E& e) { e[1].offset = 0xfffffff0; }},
      {"length", [](BlockHeader&, E& e) { e[1].size = 0xfffffff0; }},
      {"values", [](BlockHeader&, E& e) { e[1].values = 0; }},
      {"validity cycle",
       [](BlockHeader&, E& e) {
         e[1].flags |= kSharedValidity;
         e[1].validity_index = 1;
       }},
      {"validity of nobody",
       [](BlockHeader&, E& e) {
         e[1].flags |= kSharedValidity;
         e[1].validity_index = 0;
       }},
      {"same column twice", [](BlockHeader&, E& e) { e[1].column = e[0].column; }},
      {"encoding", [](BlockHeader&, E& e) { e[0].encoding = static_cast<Encoding>(77); }},
      {"sum of anything", [](BlockHeader&, E& e) { e[0].encoding = Encoding::kSum; }},
      {"type", [](BlockHeader&, E& e) { e[0].type = DiskType::kText; }},
      {"unknown table", [](BlockHeader& h, E&) { h.table = 999; }},
      {"unknown column", [](BlockHeader&, E& e) { e.back().column = 999; }},
  };
  for (const auto& [what, change] : changes) {
    Opened o = openBytes(dir, forge(bytes, at, change));
    ASSERT_TRUE(o.reader) << what;
    EXPECT_GE(readAll(*o.reader), static_cast<uint64_t>((kBlocks - 1) * kRowsPerBlock)) << what;
  }
}

TEST(Hostile, UnknownTablesAndColumnsAreSkippedAndCounted) {
  TempDir dir;
  const std::string bytes = makeTrace(dir / "t.sbt");
  auto whole = openBytes(dir, bytes);
  Opened o =
      openBytes(dir, forge(bytes, whole.reader->blocks()[2].offset, [](BlockHeader& h, auto&) { h.table = 999; }));
  EXPECT_EQ(o.reader->unknownBlocks(), 1u);
  EXPECT_EQ(o.reader->damageSummary(), "");
}

TEST(Damage, LostStringsLeaveNamesUnknownNotWrong) {
  TempDir dir;
  std::string bytes = makeTrace(dir / "t.sbt");
  // The strings block comes just before the first block of events.
  auto whole = openBytes(dir, bytes);
  size_t magic =
      bytes.rfind(std::string(reinterpret_cast<const char*>(kBlockMagic), 8), whole.reader->blocks()[0].offset - 1);
  bytes[magic + 60] = static_cast<char>(bytes[magic + 60] ^ 0x40);
  Opened o = openBytes(dir, bytes);
  EXPECT_EQ((*o.reader->strings(0))->at(0).data(), nullptr);
  EXPECT_EQ(readAll(*o.reader), static_cast<uint64_t>(kBlocks * kRowsPerBlock));
  EXPECT_FALSE(o.reader->damage().empty());
}

}  // namespace
}  // namespace tracesmith::trace
