// --keep summary, as a user asks for it.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/child.hpp"
#include "support/process.hpp"
#include "support/table.hpp"

namespace tracesmith {
namespace {

using test::Output;
using test::rows;
using test::TempDir;

const std::string kBuild = TRACESMITH_BUILD_DIR;

Output run(const TempDir& dir, const std::vector<std::string>& flags) {
  std::vector<std::string> argv = {TRACESMITH_BIN, "run"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  argv.insert(argv.end(), {"--", kBuild + "/bin/tests/fake_cuda", "kernels 200 1", "settle"});
  return test::runWith({{"TRACESMITH_CUPTI", kBuild + "/lib/tests/libcupti.so.13"}, {"TRACESMITH_DATA", dir.path()}},
                       argv);
}

TEST(Keep, RunKeepsCountsInsteadOfKernels) {
  TempDir dir;
  const Output o = run(dir, {"--keep", "summary", "-o", dir / "s.sbt"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_NE(o.err.find("200 kernels"), std::string::npos) << o.err;
  int64_t kernels = 0;
  for (const auto& row : rows(dir / "s.sbt", "event_summaries", "type", "kernel")) kernels += row.i("count");
  EXPECT_EQ(kernels, 200);
  EXPECT_LT(rows(dir / "s.sbt", "events", "type", "kernel").size(), 20u) << "only outliers one by one";
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    EXPECT_EQ(entry.path().string().find("piece"), std::string::npos) << entry.path();
}

TEST(Keep, ExportSummarizesATraceThatIsThere) {
  TempDir dir;
  ASSERT_EQ(run(dir, {"-o", dir / "whole.sbt"}).rc, 0);
  auto exported = [&](const std::string& from, const std::string& to) {
    return test::tracesmith({"export", from, "-o", to, "--keep", "summary"});
  };
  EXPECT_EQ(exported(dir / "whole.sbt", dir / "s.sbt").rc, 0);
  EXPECT_FALSE(rows(dir / "s.sbt", "event_summaries", "type", "kernel").empty());
  const Output twice = exported(dir / "s.sbt", dir / "t.sbt");
  EXPECT_EQ(twice.rc, 1);
  EXPECT_NE(twice.err.find("is a summary already"), std::string::npos) << twice.err;
  for (const std::string& to : {dir / "s.json", dir / "whole.sbt", std::string("-")}) {
    const Output o = exported(dir / "whole.sbt", to);
    EXPECT_EQ(o.rc, 2) << to;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "s.json"));
}

TEST(Keep, AFullDiskIsSaidAndTheJobGoesOn) {
  const Output o = test::run({TRACESMITH_BIN, "run", "--keep", "summary", "-o", "/dev/full", "--", "echo", "trained"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "trained\n");
  EXPECT_NE(o.err.find("No space left on device"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace tracesmith
