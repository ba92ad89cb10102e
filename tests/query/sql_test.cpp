// Replays tests/sql/*.test over the small trace (small_trace.hpp), under several configurations.
//
//   statement ok | statement error TEXT    the lines below, up to an empty one, are SQL
//   query [sorted]                         SQL, then ---- and the expected rows as CSV without the heading
//   reads TABLE KEPT of TOTAL              below the rows: the blocks its scan kept (not with other block sizes or
//   files) except NAME | only NAME                the next record is not (only) for this configuration # comment
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/interface_versions.hpp"
#include "query/engine.hpp"
#include "query/small_trace.hpp"
#include "support/process.hpp"

extern "C" tracesmith::query::Engine* tracesmithCreateQueryEngine(const char* version, const char** why);

namespace tracesmith::query {
namespace {

struct Configuration {
  const char* name;
  uint32_t block_rows;
  int files;
  EngineOptions engine;
  friend void PrintTo(const Configuration& c, std::ostream* out) { *out << c.name; }
};

constexpr uint32_t kBlockRows = 32768;
const Configuration kConfigurations[] = {
    {"default", kBlockRows, 1, {}},
    {"one_row_blocks", 1, 1, {}},
    {"tiny_memory", kBlockRows, 1, {"32MB", 0}},
    {"one_thread", kBlockRows, 1, {"", 1}},
    {"two_traces", kBlockRows, 2, {}},
};

struct Record {
  int line = 0;
  std::string kind, argument, except, only, sql;
  std::vector<std::string> expected, reads;
};

std::vector<Record> parse(const std::string& path) {
  std::vector<Record> records;
  std::ifstream in(path);
  std::string line;
  int number = 0;
  Record next;
  while (std::getline(in, line)) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string kind, argument;
    words >> kind;
    std::getline(words >> std::ws, argument);
    if (kind == "except") {
      next.except += argument + " ";
      continue;
    }
    if (kind == "only") {
      next.only = argument;
      continue;
    }
    EXPECT_TRUE(kind == "statement" || kind == "query") << path << ":" << number << ": " << line;
    next.line = number;
    next.kind = kind;
    next.argument = argument;
    bool rows = false;
    while (std::getline(in, line) && !line.empty()) {
      ++number;
      if (line == "----")
        rows = true;
      else if (rows && line.starts_with("reads "))
        next.reads.push_back(line.substr(6));
      else if (rows)
        next.expected.push_back(line);
      else
        next.sql += (next.sql.empty() ? "" : "\n") + line;
    }
    ++number;
    records.push_back(std::exchange(next, {}));
  }
  return records;
}

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

class SqlTest : public ::testing::TestWithParam<Configuration> {};

TEST_P(SqlTest, Replay) {
  const Configuration& configuration = GetParam();
  test::TempDir dir;
  std::vector<std::string> files;
  for (int f = 0; f < configuration.files; ++f) {
    files.push_back(dir / ("trace" + std::to_string(f) + ".sbt"));
    test::writeSmallTrace(files.back(), f * 4 / configuration.files, (f + 1) * 4 / configuration.files,
                          configuration.block_rows);
  }
  const char* why = "";
  std::unique_ptr<Engine> engine(tracesmithCreateQueryEngine(kQueryInterface, &why));
  ASSERT_TRUE(engine) << why;
  Status opened = engine->open(files, configuration.engine);
  ASSERT_TRUE(opened) << opened.message();

  const std::string name = configuration.name;
  const bool whole_blocks = configuration.block_rows > 1 && configuration.files == 1;
  size_t replayed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TRACESMITH_SOURCE_DIR "/tests/sql")) {
    if (entry.path().extension() != ".test") continue;
    for (const Record& record : parse(entry.path())) {
      if (record.except.find(name) != std::string::npos || (!record.only.empty() && record.only != name)) continue;
      ++replayed;
      std::string place =
          entry.path().filename().string() + ":" + std::to_string(record.line) + " (" + name + ")\n" + record.sql;
      std::string out;
      RunOptions options;
      options.format = Format::kCsv;
      options.write = [&](std::string_view bytes) {
        out += bytes;
        return Status();
      };
      RunReport report;
      Status status = engine->run(record.sql, options, report);
      if (record.kind == "statement" && record.argument != "ok") {
        std::string text = record.argument.substr(record.argument.find(' ') + 1);
        EXPECT_FALSE(status) << place;
        EXPECT_NE(status.message().find(text), std::string::npos) << place << "\nsaid: " << status.message();
        continue;
      }
      EXPECT_TRUE(status) << place << "\n" << status.message();
      if (record.kind == "statement") continue;
      std::vector<std::string> got = linesOf(out), expected = record.expected;
      if (!got.empty()) got.erase(got.begin());
      if (record.argument == "sorted") {
        std::sort(got.begin(), got.end());
        std::sort(expected.begin(), expected.end());
      }
      EXPECT_EQ(got, expected) << place;
      if (!whole_blocks || record.reads.empty()) continue;
      std::vector<std::string> reads;
      for (const ScanReport& scan : report.scans)
        reads.push_back(scan.table + " " + std::to_string(scan.kept) + " of " + std::to_string(scan.blocks));
      EXPECT_EQ(reads, record.reads) << place;
    }
  }
  EXPECT_GT(replayed, 50u);
}

INSTANTIATE_TEST_SUITE_P(Configurations, SqlTest, ::testing::ValuesIn(kConfigurations),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tracesmith::query
