// A trace of which a file has only the blocks' directories: columns come when a query needs them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "query/engine_fixture.hpp"
#include "query/small_trace.hpp"
#include "support/process.hpp"
#include "trace/layout.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::query {
namespace {

class Incomplete : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(test::tracesmith({"synth", "-o", whole_, "--events", "60000", "--ranks", "8", "--seed", "5"}).rc, 0);
    empty();
    options_.need = [&](const std::vector<ByteRange>& ranges) -> Status {
      if (gone_) return Status::notFound("it is gone");
      for (const ByteRange& r : ranges) {
        write(r.offset, bytes_.substr(r.offset, r.size));
        brought_ += r.size;
      }
      return {};
    };
  }
  /// Takes the columns out of the part.
  void empty() {
    std::filesystem::copy_file(whole_, part_, std::filesystem::copy_options::overwrite_existing);
    bytes_ = test::readFile(whole_);
    Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(whole_);
    ASSERT_TRUE(reader);
    for (const trace::Block& block : (*reader)->blocks()) {
      if (block.table != &trace::tableOf<trace::EventRow>() && block.table != &trace::tableOf<trace::CollectiveRow>())
        continue;
      const uint64_t from =
          block.offset + sizeof(trace::BlockHeader) + block.columns.size() * sizeof(trace::ColumnEntry);
      write(from, std::string(block.offset + block.size - from, '\0'));
    }
  }
  void write(uint64_t at, const std::string& bytes) const {
    std::fstream file(part_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  /// What a fresh engine brings for a statement, whose answer is that of the whole trace.
  uint64_t broughtFor(const std::string& sql) {
    empty();
    const auto part = openEngine({part_}, options_), whole = openEngine({whole_});
    brought_ = 0;  // to find the tables of the user, a small one was read
    EXPECT_EQ(ask(*part, sql), ask(*whole, sql)) << sql;
    EXPECT_TRUE(part->damage().empty()) << part->damage()[0];
    return brought_;
  }

  test::TempDir dir_;
  const std::string whole_ = dir_ / "whole.sbt", part_ = dir_ / "part.sbt";
  std::string bytes_;
  EngineOptions options_;
  uint64_t brought_ = 0;
  bool gone_ = false;
};

TEST_F(Incomplete, BringsTheColumnsAndBlocksOfAStatement) {
  EXPECT_EQ(broughtFor("SELECT count(*) FROM events"), 0u);
  const uint64_t dur = broughtFor("SELECT sum(dur) FROM events");
  EXPECT_GT(dur, 0u);
  EXPECT_GT(broughtFor("SELECT sum(dur), max(correlation) FROM events"), dur);
  EXPECT_LT(broughtFor("SELECT sum(dur) FROM events WHERE rank = 3"), dur);
  EXPECT_EQ(broughtFor("SELECT sum(dur) FROM events WHERE rank > 1000"), 0u);
  // A column that is the sum of two, a shape that is a name, a condition that zones cannot decide.
  EXPECT_GT(broughtFor("SELECT max(ts_end), max(grid_x), count(args) FROM events"), 0u);
  const uint64_t all = broughtFor("SELECT * FROM events ORDER BY ALL");
  EXPECT_LT(broughtFor("SELECT * FROM events WHERE dur = 123456789 ORDER BY ALL"), all);
  EXPECT_GT(
      broughtFor("SELECT a.rank, b.rank, count(*), sum(a.bytes) FROM collectives a JOIN collectives b USING (comm, "
                 "seq) WHERE a.dur > b.dur GROUP BY ALL ORDER BY ALL"),
      0u);
}

TEST_F(Incomplete, SaysThatItCannotBringThem) {
  const auto engine = openEngine({part_}, options_);
  gone_ = true;
  EXPECT_NE(ask(*engine, "SELECT sum(dur) FROM events").find("it is gone"), std::string::npos);
  EXPECT_EQ(ask(*engine, "SELECT count(*) > 0 FROM events"), "true\n");
  gone_ = false;
  EXPECT_EQ(ask(*engine, "SELECT sum(dur) > 0 FROM events"), "true\n") << "and can be asked again";
}

TEST_F(Incomplete, TablesThatAreNotThereAreNotEmpty) {
  options_.absent = {"events"};
  const auto engine = openEngine({part_}, options_);
  for (const char* sql :
       {"SELECT count(*) FROM events", "SELECT max(ts) FROM events", "SELECT 1 WHERE EXISTS (FROM events)",
        "SELECT * FROM events LIMIT 1", "FROM steps JOIN events USING (rank) SELECT count(*)"})
    EXPECT_NE(ask(*engine, sql).find("were not fetched"), std::string::npos) << sql << ask(*engine, sql);
  EXPECT_EQ(ask(*engine, "SELECT count(*) > 0 FROM collectives"), "true\n");
}

}  // namespace
}  // namespace tracesmith::query
