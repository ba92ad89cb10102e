// A spool and a store without agent and master between them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "cluster/agent/spool.hpp"
#include "cluster/master/store.hpp"
#include "cluster/wire/merge.hpp"
#include "cluster/wire/segment.hpp"
#include "support/process.hpp"
#include "support/table.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cluster {

class SpoolTest : public ::testing::Test {
 protected:
  std::unique_ptr<Spool> open() {
    Result<std::unique_ptr<Spool>> spool = Spool::open(dir_ / "spool");
    EXPECT_TRUE(spool) << spool.status().message();
    return spool ? std::move(*spool) : nullptr;
  }
  std::unique_ptr<Store> openStore() {
    Result<std::unique_ptr<Store>> store = Store::open(dir_ / "store");
    EXPECT_TRUE(store) << store.status().message();
    return store ? std::move(*store) : nullptr;
  }
  static void rows(Spool& spool, int64_t from, int64_t count) {
    auto out = spool.writer().appender();
    for (int64_t i = from; i < from + count; ++i) {
      trace::CounterRow row;
      row.ts = i;
      row.name = spool.writer().string("n");
      row.value = trace::real(static_cast<double>(i));
      ASSERT_TRUE(out->append(row));
    }
    ASSERT_TRUE(out->flush());
  }
  static void checkpoint(Spool& spool, const std::string& state, int64_t covered = 0) {
    ASSERT_TRUE(spool.checkpoint({covered, covered, state}));
  }
  static std::vector<Spool::Piece> pieces(Spool& spool, size_t most = 1 << 20) {
    std::vector<Spool::Piece> all;
    for (;;) {
      Spool::Piece piece;
      Result<bool> more = spool.next(most, piece);
      EXPECT_TRUE(more) << more.status().message();
      if (!more || !*more) return all;
      all.push_back(std::move(piece));
    }
  }
  size_t files() const {
    size_t n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "spool"))
      n += entry.path().extension() == ".sbt";
    return n;
  }
  static uint64_t counters(const std::string& path) {
    auto reader = trace::Reader::open(path);
    EXPECT_TRUE(reader);
    return (*reader)->rows(trace::tableOf<trace::CounterRow>());
  }
  static Store::Taken append(Store& store, const Spool::Piece& p, const std::string& node = "n") {
    Result<Store::Taken> taken = store.append(node, p.epoch, p.segment, p.offset, p.data);
    EXPECT_TRUE(taken) << taken.status().message();
    return taken ? *taken : Store::Taken{};
  }
  /// Sends what the spool has and hands over the answers, as agent and master do. How many pieces had data; far more
  /// than there can be: it never ends.
  static size_t deliver(Spool& spool, Store& store, bool acknowledge = true) {
    size_t pieces = 0;
    Spool::Piece piece;
    while (pieces < 1000) {
      Result<bool> more = spool.next(1, piece);
      EXPECT_TRUE(more) << more.status().message();
      if (!more || !*more) break;
      pieces += !piece.data.empty();
      const Store::Taken taken = append(store, piece);
      if (taken.expected) spool.acknowledge(piece.epoch, piece.segment, taken.size, true);
      if (taken.expected && taken.durable > 0) spool.acknowledge(piece.epoch, piece.segment, taken.durable, false);
    }
    std::vector<Store::Durable> durable;
    EXPECT_TRUE(store.sync(durable));
    if (acknowledge)
      for (const Store::Durable& d : durable) spool.acknowledge(d.epoch, d.number, d.size, false);
    return pieces;
  }
  /// Segments of ten rows each, in two blocks with a checkpoint after each; the last is closed too.
  static void segments(Spool& spool, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(spool.beginSegment());
      for (int64_t half : {0, 5}) {
        rows(spool, 1 + i * 10 + half, 5);
        checkpoint(spool, "s" + std::to_string(i), 1 + i * 10 + half + 5);
      }
      ASSERT_TRUE(spool.closeSegment());
    }
  }
  /// All that is stored, as one trace.
  std::string merged(const Store& store, const std::vector<SessionLoss>& losses = {}) {
    SessionRecord session;
    session.id = session.name = "all";
    session.start_ns = 1;
    session.nodes = {"n"};
    std::string bytes;
    EXPECT_TRUE(mergeSession(session, store.segments("n"), losses, [&](std::string_view more, uint64_t) {
      bytes += more;
      return Status();
    }));
    test::writeFile(dir_ / "merged.sbt", bytes);
    return dir_ / "merged.sbt";
  }
  test::TempDir dir_;
};

}  // namespace tracesmith::cluster
