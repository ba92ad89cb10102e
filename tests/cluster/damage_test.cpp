// A master that has less than it acknowledged, and bits that flipped on a disk: what is still anywhere comes again, and
// what is nowhere is told.
#include "cluster/wire/damage.hpp"
#include <sys/stat.h>

#include "cluster/spool_fixture.hpp"

namespace tracesmith::cluster {
namespace {

class Damage : public SpoolTest {
 protected:
  static void flip(const std::string& path, size_t offset) {
    std::string bytes = test::readFile(path);
    ASSERT_LT(offset, bytes.size());
    bytes[offset] = static_cast<char>(bytes[offset] ^ 4);
    test::writeFile(path, bytes);
  }
  /// Where the blocks of a table are in a file, and where their columns are.
  struct Place {
    size_t offset, columns, end;
  };
  static std::vector<Place> blocks(const std::string& path, uint16_t table) {
    const std::string bytes = test::readFile(path);
    std::vector<Place> all;
    for (size_t at = sizeof(trace::FileHeader); at < bytes.size();) {
      Result<trace::BlockBytes> block = trace::blockAt(std::string_view(bytes).substr(at));
      if (!block) break;
      const trace::BlockHeader& h = block->header;
      if (h.table == table) all.push_back({at, at + sizeof h + h.directory_size, at + h.block_size});
      at += h.block_size;
    }
    return all;
  }
  static std::vector<Place> rowBlocks(const std::string& path) {
    return blocks(path, trace::tableOf<trace::CounterRow>().id);
  }
  std::string spoolFile(const Spool& spool, uint32_t number) const {
    return dir_ / ("spool/" + segmentFile(spool.epoch(), number));
  }
};

TEST_F(Damage, AMasterThatHasLessGetsWhatTheSpoolHas) {
  auto spool = open();
  segments(*spool, 1);
  auto store = openStore();
  EXPECT_GT(deliver(*spool, *store), 0u);
  ASSERT_EQ(spool->unacknowledged(), 0u);
  store.reset();
  std::filesystem::remove_all(dir_ / "store");  // restored from a backup of the day before
  store = openStore();
  spool->rewind();
  EXPECT_GT(deliver(*spool, *store), 0u);
  EXPECT_EQ(spool->unacknowledged(), 0u);
  EXPECT_EQ(counters(store->segments("n").at(0).path), 10u);
  spool->rewind();
  EXPECT_EQ(deliver(*spool, *store), 0u) << "a master that has everything is sent nothing";
}

TEST_F(Damage, WhatNeitherSideHasAnyMoreIsToldOnce) {
  auto spool = open();
  segments(*spool, 2);
  auto store = openStore();
  deliver(*spool, *store);
  std::filesystem::copy(dir_ / "store", dir_ / "backup", std::filesystem::copy_options::recursive);
  segments(*spool, 3);
  deliver(*spool, *store);
  EXPECT_EQ(files(), 1u);
  EXPECT_FALSE(store->agentRemoved("n", spool->removed())) << "all of it is here";
  store.reset();
  std::filesystem::remove_all(dir_ / "store");
  std::filesystem::rename(dir_ / "backup", dir_ / "store");
  store = openStore();
  spool = open();
  EXPECT_EQ(spool->removed().segment, 3u) << "a restarted agent knows it too";
  const std::optional<model::NodeLoss> loss = store->agentRemoved("n", spool->removed());
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->from_ns, 21);
  EXPECT_FALSE(store->agentRemoved("n", spool->removed()));
  store.reset();
  store = openStore();
  EXPECT_FALSE(store->agentRemoved("n", spool->removed()));
  ASSERT_EQ(store->losses("n").size(), 1u);
  EXPECT_EQ(store->losses("n")[0], *loss);
}

TEST_F(Damage, WhatRetentionRemovedBeforeTheAgentHeardIsNotSentAgain) {
  auto spool = open();
  segments(*spool, 3);
  auto store = openStore();
  deliver(*spool, *store, false);  // no acknowledgement arrives
  for (const SegmentInfo& s : store->segments("n"))
    if (s.number < 2) {
      ASSERT_TRUE(store->remove(s));
    }
  store.reset();
  store = openStore();
  spool->rewind();
  EXPECT_EQ(deliver(*spool, *store), 0u);
  EXPECT_EQ(spool->unacknowledged(), 0u);
  EXPECT_EQ(store->segments("n").size(), 1u);
  EXPECT_FALSE(store->agentRemoved("n", spool->removed())) << "it is gone because somebody wanted it to go";
  EXPECT_EQ(test::readFile(dir_ / "store/nodes/n/removed"), "") << "the agent will not ask for it again";
}

TEST_F(Damage, AFlippedBitCostsOneBlockAndCutsNothing) {
  auto spool = open();
  segments(*spool, 1);
  const std::string sent = spoolFile(*spool, 0);
  const std::vector<Place> places = rowBlocks(sent), names = blocks(sent, trace::kStringsTable),
                           checkpoints = blocks(sent, 8);
  ASSERT_EQ(places.size(), 2u);
  ASSERT_EQ(names.size(), 1u);
  ASSERT_EQ(checkpoints.size(), 3u) << "the last one twice";
  const struct {
    const char* what;
    size_t offset;
    uint64_t left;
    std::map<std::string, int64_t> lost;
  } kCases[] = {
      {"file header", 20, 10, {}},
      {"magic of a block", places[0].offset, 5, {{"damaged", 5}}},
      {"size of a block", places[0].offset + 8, 5, {{"damaged", 5}}},
      {"size of a block, large", places[0].offset + 11, 5, {{"damaged", 5}}},
      {"checksum of a block", places[0].offset + 50, 5, {{"damaged", 5}}},
      {"directory", places[0].offset + 60, 5, {{"damaged", 5}}},
      {"last block of rows", places[1].offset, 5, {{"damaged", 5}}},
      {"names", names[0].offset, 10, {{"damaged", 1}}},
      {"first checkpoint", checkpoints[0].offset, 10, {}},
      {"last checkpoint", checkpoints[1].offset, 10, {}},
      {"last checkpoint, again", checkpoints[2].offset, 10, {}},
      {"column", places[1].columns, 5, {{"damaged", 5}}},
  };
  for (const auto& c : kCases) {
    std::filesystem::remove_all(dir_ / "store");
    auto store = openStore();
    spool->rewind();
    deliver(*spool, *store);
    const std::string path = store->segments("n").at(0).path;
    const auto size = std::filesystem::file_size(path);
    store.reset();
    flip(path, c.offset);
    store = openStore();
    EXPECT_EQ(std::filesystem::file_size(path), size) << c.what;
    EXPECT_EQ(store->segments("n").at(0).size, size) << c.what;
    EXPECT_TRUE(store->segments("n").at(0).closed) << c.what;
    const std::string trace = merged(*store);
    EXPECT_EQ(counters(trace), c.left) << c.what;
    std::map<std::string, int64_t> lost;
    for (const auto& [cause, count] : test::losses(trace)) lost[cause] = count;
    EXPECT_EQ(lost, c.lost) << c.what;
    EXPECT_EQ((*trace::Reader::open(trace))->damageSummary(), "") << c.what;
    // The agent still has it: the master gets what it lacks, and keeps what it had.
    spool->rewind();
    deliver(*spool, *store);
    if (std::string(c.what) == "column") continue;  // nobody looks at columns before somebody wants them
    EXPECT_EQ(counters(merged(*store)), 10u) << c.what;
    EXPECT_TRUE(std::filesystem::exists(path + ".damaged")) << c.what;
  }
}

TEST_F(Damage, TwoPlacesInOneSegmentAreCountedTogether) {
  auto spool = open();
  ASSERT_TRUE(spool->beginSegment());
  for (int64_t from : {1, 6, 11}) rows(*spool, from, 5);
  checkpoint(*spool, "s", 20);
  ASSERT_TRUE(spool->closeSegment());
  auto store = openStore();
  deliver(*spool, *store);
  const std::string path = store->segments("n").at(0).path;
  const std::vector<Place> places = rowBlocks(path), checkpoints = blocks(path, 8);
  ASSERT_EQ(places.size(), 3u);
  ASSERT_EQ(checkpoints.size(), 2u);
  flip(path, places[0].offset);
  flip(path, places[2].offset + 50);
  const std::string trace = merged(*store);
  EXPECT_EQ(counters(trace), 5u);
  EXPECT_EQ(test::losses(trace), (std::map<std::string, int64_t>{{"damaged", 10}}));
  EXPECT_NE(test::rows(trace, "losses").at(0).s("detail").find("rows of counters"), std::string::npos);
  // With the checkpoints nobody knows any more how much there was.
  for (const Place& p : checkpoints) flip(path, p.offset);
  const std::vector<test::Row> lost = test::rows(merged(*store), "losses");
  EXPECT_EQ(lost.size(), 2u);
  for (const test::Row& row : lost) EXPECT_TRUE(row.s("cause") == "damaged" && row.null("count"));
}

/// The segment of an agent that was killed ends as one that was closed.
TEST_F(Damage, OfAKilledAgentsSegmentTheLastCheckpointIsThereTwiceToo) {
  auto spool = open();
  ASSERT_TRUE(spool->beginSegment());
  rows(*spool, 1, 5);
  checkpoint(*spool, "s", 6);
  rows(*spool, 6, 5);  // nobody else has seen them
  spool.reset();
  spool = open();
  auto store = openStore();
  deliver(*spool, *store);
  const std::string path = store->segments("n").at(0).path, bytes = test::readFile(path);
  const std::vector<Place> checkpoints = blocks(path, 8);
  ASSERT_EQ(checkpoints.size(), 2u);
  for (size_t offset : {checkpoints[0].offset, checkpoints[0].columns, checkpoints[1].offset, checkpoints[1].columns}) {
    test::writeFile(path, bytes);
    flip(path, offset);
    const std::string trace = merged(*store);
    EXPECT_EQ(counters(trace), 5u);
    EXPECT_TRUE(test::losses(trace).empty()) << offset;
  }
  // Both at once: no row is lost, and it is known that none is.
  test::writeFile(path, bytes);
  flip(path, checkpoints[0].columns);
  flip(path, checkpoints[1].offset);
  EXPECT_TRUE(test::rows(merged(*store), "losses").empty());
  // What was damaged in front of them is not.
  flip(path, rowBlocks(path).at(0).offset);
  EXPECT_EQ(test::rows(merged(*store), "losses").size(), 1u);
}

TEST_F(Damage, AFlippedBitInTheSpoolDoesNotKeepTheRestFromBeingSent) {
  for (bool column : {false, true}) {
    std::filesystem::remove_all(dir_ / "store");
    std::filesystem::remove_all(dir_ / "spool");
    auto spool = open();
    segments(*spool, 2);
    const Place place = rowBlocks(spoolFile(*spool, 0)).at(0);
    flip(spoolFile(*spool, 0), column ? place.columns : place.offset + 50);
    spool.reset();
    spool = open();
    EXPECT_EQ(spool->recovered().state, "s1");
    auto store = openStore();
    EXPECT_LT(deliver(*spool, *store), 100u);
    EXPECT_EQ(spool->unacknowledged(), 0u);
    const std::string trace = merged(*store);
    EXPECT_EQ(counters(trace), 15u);
    const auto lost = test::losses(trace);
    ASSERT_EQ(lost.size(), 1u);
    EXPECT_EQ(lost.begin()->first, "damaged");
    EXPECT_EQ(lost.begin()->second, 5);
  }
}

TEST_F(Damage, ASegmentThatRetentionRemovesMeanwhileIsALoss) {
  auto spool = open();
  segments(*spool, 2);
  auto store = openStore();
  deliver(*spool, *store);
  std::filesystem::remove(store->segments("n").at(0).path);  // listed, and gone
  const std::string trace = merged(*store);
  EXPECT_EQ(counters(trace), 10u);
  EXPECT_EQ(test::losses(trace).at("retention"), 10);
}

TEST_F(Damage, ACheckpointThatCoversTheFutureMakesNothingComplete) {
  auto spool = open();
  segments(*spool, 1);  // covered until 6, then until 11
  auto store = openStore();
  for (const Spool::Piece& p : pieces(*spool))
    ASSERT_TRUE(store->append("n", p.epoch, p.segment, p.offset, p.data, 10));
  EXPECT_EQ(store->coveredUntil("n"), 6);
}

/// The kernel reports a failed write once and then forgets it: the bytes never get to the disk.
TEST_F(Damage, WhatASyncCouldNotWriteIsAcknowledgedOnlyOnceItIsWrittenAgain) {
  auto spool = open();
  segments(*spool, 2);
  int failures = 2;
  auto fails = [&](int fd) {
    if (failures == 0) return ::fdatasync(fd);
    --failures;
    errno = EIO;
    return -1;
  };
  Result<std::unique_ptr<Store>> opened = Store::open(dir_ / "store", fails);
  ASSERT_TRUE(opened);
  Store& store = **opened;
  for (const Spool::Piece& p : pieces(*spool)) append(store, p);
  std::vector<Store::Durable> durable;
  EXPECT_FALSE(store.sync(durable));
  EXPECT_TRUE(durable.empty());
  // Of one file the bytes are gone, of the other they are still in memory.
  const std::string gone = store.segments("n").at(0).path, kept = store.segments("n").at(1).path;
  std::string bytes = test::readFile(gone);
  const size_t lost = rowBlocks(gone).at(1).offset;
  test::writeFile(gone, bytes.substr(0, lost) + std::string(bytes.size() - lost, '\0'));
  struct stat before, after;
  ASSERT_EQ(::stat(kept.c_str(), &before), 0);
  ASSERT_TRUE(store.sync(durable));
  ASSERT_EQ(::stat(kept.c_str(), &after), 0);
  EXPECT_NE(before.st_ino, after.st_ino) << "a second sync of the same file says nothing";
  ASSERT_EQ(durable.size(), 2u);
  EXPECT_EQ(durable[0].size, lost) << "what is gone is not acknowledged";
  EXPECT_EQ(durable[1].size, std::filesystem::file_size(kept));
  for (const Store::Durable& d : durable) spool->acknowledge(d.epoch, d.number, d.size, false);
  spool->rewind();
  deliver(*spool, store);
  EXPECT_EQ(spool->unacknowledged(), 0u);
  EXPECT_EQ(test::readFile(gone), bytes);
  EXPECT_EQ(counters(merged(store)), 20u);
}

}  // namespace
}  // namespace tracesmith::cluster
