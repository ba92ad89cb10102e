// Commands that read a trace take what other tools wrote as well.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "support/child.hpp"
#include "support/process.hpp"

namespace tracesmith::cli {
namespace {

using test::Output;
using test::TempDir;
using test::writeFile;

class TraceFile : public ::testing::Test {
 protected:
  void SetUp() override { writeFile(json_, trace(0)); }

  static std::string trace(int rank) {
    return R"({"distributedInfo":{"rank":)" + std::to_string(rank) +
           R"(},"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2}]})";
  }
  Output tracesmith(std::vector<std::string> words) const {
    words.insert(words.begin(), TRACESMITH_BIN);
    return test::runWith({{"XDG_CACHE_HOME", dir_ / "cache"}}, words);
  }
  std::vector<std::string> kept() const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "cache/tracesmith/imports", error))
      names.push_back(entry.path().filename().string());
    return names;
  }

  TempDir dir_;
  const std::string json_ = dir_ / "rank0.json";
};

TEST_F(TraceFile, IsImportedOnceWhicheverCommandReadsIt) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"info", json_},
                                             {"view", json_},
                                             {"analyze", json_},
                                             {"diff", json_, json_},
                                             {"report", json_, "-o", dir_ / "r.html"}}) {
    const Output o = tracesmith(words);
    EXPECT_EQ(o.rc, 0) << words[0] << ": " << o.err;
    EXPECT_EQ(o.err.find("note: imported") != std::string::npos, words[0] == "info") << words[0] << ": " << o.err;
  }
  ASSERT_EQ(kept().size(), 1u);
  EXPECT_TRUE(kept()[0].starts_with("rank0-")) << kept()[0];
  struct stat about {};
  ASSERT_EQ(::stat((dir_ / "cache/tracesmith/imports/" + kept()[0]).c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
}

TEST_F(TraceFile, IsImportedAgainWhenItHasChanged) {
  EXPECT_EQ(tracesmith({"info", json_}).rc, 0);
  writeFile(json_, trace(0) + "\n");
  EXPECT_NE(tracesmith({"info", json_}).err.find("note: imported"), std::string::npos);
}

TEST_F(TraceFile, OfAFolderIsOneTraceOfAllRanks) {
  std::filesystem::create_directories(dir_ / "job");
  for (int rank : {0, 1, 2}) writeFile(dir_ / "job/rank" + std::to_string(rank) + ".json", trace(rank));
  const Output o = tracesmith({"view", "--json", dir_ / "job"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_NE(o.err.find("(3 files, "), std::string::npos) << o.err;
  EXPECT_NE(o.out.find("\"rank\":2"), std::string::npos) << o.out;
}

TEST_F(TraceFile, ThatIsNoneLeavesNothingBehind) {
  writeFile(dir_ / "bad.json", "{\"traceEvents\":[{\"ph\":");
  for (const char* name : {"bad.json", "missing.json", "empty"}) {
    if (std::string(name) == "empty") std::filesystem::create_directories(dir_ / name);
    const Output o = tracesmith({"info", dir_ / name});
    EXPECT_EQ(o.rc, 1) << name;
    EXPECT_EQ(o.err.find('\n'), o.err.size() - 1) << o.err;
  }
  EXPECT_TRUE(kept().empty()) << kept()[0];
}

TEST_F(TraceFile, NeedsAFolderToKeepItIn) {
  writeFile(dir_ / "taken", "");
  const Output o = test::runWith({{"XDG_CACHE_HOME", dir_ / "taken"}}, {TRACESMITH_BIN, "info", json_});
  EXPECT_EQ(o.rc, 1);
  EXPECT_NE(o.err.find("tracesmith import " + json_), std::string::npos) << o.err;
}

TEST_F(TraceFile, CanBeAskedInSqlAndTheAnswerHasTheFormatOfItsName) {
  if (!TRACESMITH_HAS_QUERY) GTEST_SKIP() << "built without SQL";
  for (const char* name : {"a.csv", "a.json", "a.parquet", "a.arrow"}) {
    const Output o = tracesmith({"query", json_, "SELECT name, dur FROM events", "-o", dir_ / name});
    EXPECT_EQ(o.rc, 0) << name << ": " << o.err;
  }
  EXPECT_EQ(test::readFile(dir_ / "a.csv"), "name,dur\nk,2000\n");
  EXPECT_EQ(test::readFile(dir_ / "a.json"), "[\n{\"name\":\"k\",\"dur\":2000}\n]\n");
  EXPECT_TRUE(test::readFile(dir_ / "a.parquet").starts_with("PAR1"));
  EXPECT_TRUE(test::readFile(dir_ / "a.arrow").starts_with("\xff\xff\xff\xff"));
}

}  // namespace
}  // namespace tracesmith::cli
