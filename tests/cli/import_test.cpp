// `tracesmith import` as a user meets it: what it prints, what it leaves behind, how it fails.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "support/imported.hpp"

namespace tracesmith::cli {
namespace {

using test::TempDir;
using test::tracesmith;
using test::writeFile;

constexpr const char* kTrace =
    R"({"distributedInfo":{"rank":2},"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2},{"ph":"?"}]})";

/// One line on standard error, exit 1, no output file.
void expectFailure(const TempDir& dir, const std::string& input, const std::string& message) {
  test::Output o = tracesmith({"import", input, "-o", dir / "out.sbt"});
  EXPECT_EQ(o.rc, 1) << message;
  EXPECT_NE(o.err.find(message), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find('\n'), o.err.size() - 1) << o.err;
  EXPECT_TRUE(o.out.empty()) << o.out;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    EXPECT_EQ(entry.path().filename().string().find("out.sbt"), std::string::npos);
}

TEST(Import, SaysWhatItDid) {
  TempDir dir;
  writeFile(dir / "t.json", kTrace);
  test::Output o = tracesmith({"import", dir / "t.json", "-o", dir / "out.sbt"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.err, "");
  EXPECT_NE(o.out.find("1 file, rank 2: 1 event"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("lost: 1 × unknown phase"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("MB/s"), std::string::npos) << o.out;
  auto session = test::table(dir / "out.sbt", "sessions").at(0);
  EXPECT_EQ(test::at(session, "source"), "import");
  EXPECT_EQ(test::at(session, "command"), "tracesmith import " + (dir / "t.json") + " -o " + (dir / "out.sbt"));
  EXPECT_EQ(test::at(test::table(dir / "out.sbt", "events").at(0), "rank"), "2");
}

TEST(Import, JsonSummary) {
  TempDir dir;
  writeFile(dir / "t.json", kTrace);
  test::Output o = tracesmith({"import", dir / "t.json", "-o", dir / "out.sbt", "--json"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_NE(
      o.out.find(
          R"("files":1,"events":1,"collectives":0,"steps":0,"ranks":[2],"losses":[{"cause":"unknown phase","count":1,)"),
      std::string::npos)
      << o.out;
}

TEST(Import, RankAndNodeOptions) {
  TempDir dir;
  writeFile(dir / "t.json", kTrace);
  EXPECT_EQ(tracesmith({"import", dir / "t.json", "-o", dir / "out.sbt", "--rank", "5", "--node", "n3"}).rc, 0);
  auto row = test::table(dir / "out.sbt", "events").at(0);
  EXPECT_EQ(test::at(row, "rank"), "5");
  EXPECT_EQ(test::at(row, "node"), "n3");
}

TEST(Import, SeveralFilesAndADuplicateRank) {
  TempDir dir;
  std::filesystem::create_directories(dir / "job/deep");
  writeFile(dir / "job/a.json", kTrace);
  writeFile(dir / "job/deep/b.json", kTrace);
  writeFile(dir / "job/notes.txt", "no trace");
  test::Output o = tracesmith({"import", dir / "job", "-o", dir / "out.sbt"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_NE(o.err.find("warning: rank 2 is in both"), std::string::npos) << o.err;
  EXPECT_EQ(test::table(dir / "out.sbt", "events").size(), 2u);
  // The output may lie in the folder: the next import passes it over.
  for (int i = 0; i < 2; ++i) {
    o = tracesmith({"import", dir / "job", "-o", dir / "job/all.sbt", "--force"});
    EXPECT_EQ(o.rc, 0) << o.err;
  }
  EXPECT_EQ(test::table(dir / "job/all.sbt", "events").size(), 2u);
  o = tracesmith({"import", dir / "job", "-o", dir / "o2.sbt", "--rank", "1"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_NE(o.err.find("one input only"), std::string::npos) << o.err;
}

TEST(Import, Failures) {
  TempDir dir;
  std::filesystem::create_directories(dir / "folder");
  const std::string text = kTrace;
  writeFile(dir / "empty.json", "");
  writeFile(dir / "cut.json", text.substr(0, 50));
  writeFile(dir / "bad.json", "[{\"ph\" \"X\"}]");
  writeFile(dir / "text.json", "hello world");
  writeFile(dir / "other.json", "{\"a\":1}");
  writeFile(dir / "bad.gz", std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10) + std::string(20, '\xff'));
  writeFile(dir / "cut.gz", std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10));
  writeFile(dir / "cut.sbt", std::string("SBT\0\0\0\1\0", 8));
  writeFile(dir / "deep.json", std::string(100'000, '['));
  expectFailure(dir, dir / "none.json", "none.json: No such file or directory");
  expectFailure(dir, dir / "folder", "holds no traces");
  expectFailure(dir, dir / "empty.json", "is empty");
  expectFailure(dir, dir / "cut.json", "cut.json: malformed JSON at byte 50: the file ends here");
  expectFailure(dir, dir / "bad.json", "bad.json: malformed JSON at byte 7: expected ':' after a key");
  expectFailure(dir, dir / "text.json", "text.json is not a trace");
  expectFailure(dir, dir / "other.json", "has no traceEvents");
  expectFailure(dir, dir / "bad.gz", "bad.gz: corrupt gzip at byte ");
  expectFailure(dir, dir / "cut.gz", "cut.gz: truncated gzip: it ends at byte 10");
  expectFailure(dir, dir / "cut.sbt", "ends inside its header");
  expectFailure(dir, dir / "deep.json", "nested too deeply");
  ASSERT_EQ(::chmod((dir / "bad.json").c_str(), 0), 0);
  if (::geteuid() != 0) expectFailure(dir, dir / "bad.json", "Permission denied");
}

TEST(Import, AFailedImportLeavesAnOldTraceAlone) {
  TempDir dir;
  writeFile(dir / "bad.json", "[{]");
  writeFile(dir / "out.sbt", "what was there before");
  EXPECT_EQ(tracesmith({"import", dir / "bad.json", "-o", dir / "out.sbt"}).rc, 1);
  EXPECT_EQ(test::readFile(dir / "out.sbt"), "what was there before");
}

TEST(Import, AnSbtTraceNeedsNone) {
  TempDir dir;
  writeFile(dir / "t.json", kTrace);
  EXPECT_EQ(tracesmith({"import", dir / "t.json", "-o", dir / "new.sbt"}).rc, 0);
  expectFailure(dir, dir / "new.sbt", "is already an SBT trace");
}

TEST(Import, WrongUsage) {
  EXPECT_EQ(tracesmith({"import"}).rc, 2);
  EXPECT_EQ(tracesmith({"import", "x.json"}).rc, 2);
  EXPECT_EQ(tracesmith({"import", "x.json", "-o", "y", "--rank", "-1"}).rc, 2);
}

TEST(Import, WritesIntoAPipe) {
  TempDir dir;
  writeFile(dir / "t.json", kTrace);
  test::Output o =
      test::run({"sh", "-c", TRACESMITH_BIN " import " + (dir / "t.json") + " -o /dev/stdout --json | head -c 3"});
  EXPECT_EQ(o.out, "SBT");
}

}  // namespace
}  // namespace tracesmith::cli
