// Spool and store, piece by piece: torn ends, duplicates, gaps, garbage.
#include "cluster/spool_fixture.hpp"

namespace tracesmith::cluster {
namespace {

TEST_F(SpoolTest, WhatComesAfterTheLastCheckpointIsCutAtTheNextStart) {
  auto spool = open();
  ASSERT_TRUE(spool->beginSegment());
  rows(*spool, 0, 100);
  checkpoint(*spool, "state one", 77);
  rows(*spool, 100, 100);  // never safe
  const std::string file = dir_ / ("spool/" + segmentFile(spool->epoch(), 0));
  spool.reset();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 13);  // and torn
  spool = open();
  EXPECT_EQ(spool->recovered().state, "state one");
  EXPECT_EQ(spool->recovered().covered_ns, 77);
  EXPECT_EQ(counters(file), 100u);
  EXPECT_TRUE((*trace::Reader::open(file))->closed());
  EXPECT_GT(pieces(*spool).size(), 0u);
}

TEST_F(SpoolTest, ASegmentNobodyHasSeenGoes) {
  auto spool = open();
  ASSERT_TRUE(spool->beginSegment());
  rows(*spool, 0, 100);
  spool.reset();
  spool = open();
  EXPECT_EQ(files(), 0u);
  EXPECT_TRUE(spool->recovered().state.empty());
}

TEST_F(SpoolTest, AcknowledgedSegmentsAreRemovedOnceALaterOneIsSafe) {
  auto spool = open();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(spool->beginSegment());
    rows(*spool, i * 10, 10);
    checkpoint(*spool, "s" + std::to_string(i));
    ASSERT_TRUE(spool->closeSegment());
  }
  for (const Spool::Piece& p : pieces(*spool)) spool->acknowledge(p.epoch, p.segment, p.offset + p.data.size(), false);
  EXPECT_EQ(files(), 1u) << "the last one holds the state";
  EXPECT_EQ(spool->unacknowledged(), 0u);
  EXPECT_EQ(open()->recovered().state, "s2");
}

TEST_F(SpoolTest, PiecesMakeTheSameFileInTheStoreHoweverTheyAreCut) {
  auto spool = open();
  ASSERT_TRUE(spool->beginSegment());
  for (int i = 0; i < 20; ++i) {
    rows(*spool, i * 10, 10);
    std::string state;
    for (int k = 0; k < 1000; ++k) state += static_cast<char>(k * k * 31 + i * k);
    checkpoint(*spool, state, i);
  }
  ASSERT_TRUE(spool->closeSegment());
  auto store = openStore();
  const std::vector<Spool::Piece> all = pieces(*spool, 1);
  ASSERT_GT(all.size(), 2u);
  for (const Spool::Piece& p : all) {
    EXPECT_FALSE(append(*store, p).expected);
    EXPECT_TRUE(append(*store, p).expected) << "a piece that comes twice is stored once";
  }
  EXPECT_TRUE(append(*store, all[3]).expected);
  std::vector<Store::Durable> durable;
  ASSERT_TRUE(store->sync(durable));
  const SegmentInfo info = store->segments("n").at(0);
  EXPECT_TRUE(info.closed);
  EXPECT_EQ(info.covered_ns, 19);
  EXPECT_EQ(store->coveredUntil("n"), 19);
  EXPECT_EQ(test::readFile(info.path), test::readFile(dir_ / ("spool/" + segmentFile(spool->epoch(), 0))));
}

TEST_F(SpoolTest, AStoreCutsATornEndAndAsksForItAgain) {
  auto spool = open();
  ASSERT_TRUE(spool->beginSegment());
  rows(*spool, 0, 1000);
  checkpoint(*spool, "s", 5);
  const std::vector<Spool::Piece> all = pieces(*spool, 1);
  auto store = openStore();
  for (const Spool::Piece& p : all) append(*store, p);
  const std::string path = store->segments("n").at(0).path;
  const auto size = std::filesystem::file_size(path);
  store.reset();
  std::filesystem::resize_file(path, size - 3);
  store = openStore();
  const uint64_t kept = store->segments("n").at(0).size;
  EXPECT_LT(kept, size);
  EXPECT_TRUE(append(*store, all[0]).expected);
  spool->acknowledge(all[0].epoch, 0, kept, true);
  for (const Spool::Piece& p : pieces(*spool)) EXPECT_FALSE(append(*store, p).expected);
  EXPECT_GT(spool->unacknowledged(), 0u) << "nothing of it is known to be safe";
  EXPECT_EQ(std::filesystem::file_size(path), size);
  EXPECT_EQ(counters(path), 1000u);
}

TEST_F(SpoolTest, AStoreTakesOnlyWholeGoodBlocks) {
  auto spool = open();
  ASSERT_TRUE(spool->beginSegment());
  rows(*spool, 0, 1000);
  checkpoint(*spool, "s");
  Spool::Piece piece = pieces(*spool).at(0);
  auto store = openStore();
  auto refused = [&](const std::string& data) {
    Result<Store::Taken> taken = store->append("n", piece.epoch, 0, 0, data);
    return !taken && taken.status().code() == Code::kInvalid;
  };
  EXPECT_TRUE(refused("garbage"));
  EXPECT_TRUE(refused(piece.data.substr(0, piece.data.size() - 8)));
  for (size_t at : {size_t{3}, size_t{70}, piece.data.size() - 20}) {
    std::string damaged = piece.data;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_TRUE(refused(damaged)) << at;
  }
  EXPECT_FALSE(store->append("../n", piece.epoch, 0, 0, piece.data));
  EXPECT_FALSE(store->append("n", "../../../../x", 0, 0, piece.data));
  EXPECT_FALSE(append(*store, piece).expected);
}

TEST_F(SpoolTest, EpochsGrowEvenWhenTheClockIsSetBack) {
  std::filesystem::create_directories(dir_ / "spool");
  auto spool = open();
  const std::string first = spool->epoch();
  ASSERT_TRUE(spool->beginSegment());
  checkpoint(*spool, "s");
  spool.reset();
  std::filesystem::rename(dir_ / ("spool/" + segmentFile(first, 0)),
                          dir_ / ("spool/" + segmentFile("ffff00000000abcd", 0)));
  EXPECT_GT(open()->epoch(), "ffff00000000abcd");
}

}  // namespace
}  // namespace tracesmith::cluster
