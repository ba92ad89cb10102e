// Traces whose steps are marked: the steps found without the marks must be those.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "capture/sim/rows.hpp"
#include "support/process.hpp"
#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::analysis {
namespace {

Analysis of(const std::string& file, bool marks) {
  auto reader = trace::Reader::open(file);
  EXPECT_TRUE(reader) << reader.status().message();
  AnalyzeOptions options;
  options.marks = marks;
  auto result = analyze(**reader, options);
  EXPECT_TRUE(result) << result.status().message();
  return std::move(*result);
}

/// Steps in front may be start-up, the one at the end cut; between them none is missing, divided or moved.
void expectSameSteps(const std::string& file, const std::string& by, size_t edges) {
  const Analysis marked = of(file, true), found = of(file, false);
  EXPECT_EQ(marked.steps_by, "marks");
  EXPECT_EQ(found.steps_by, by);
  EXPECT_LE(found.steps.size(), marked.steps.size());
  EXPECT_GE(found.steps.size() + edges, marked.steps.size());
  EXPECT_NEAR(found.step_us, marked.step_us, 0.03 * marked.step_us);
  for (const StepResult& s : found.steps) EXPECT_EQ(s.ranks, found.ranks) << s.step;
  // A step may begin elsewhere than its mark, but always at the same place.
  double least = INFINITY;
  for (size_t shift = 0; shift + found.steps.size() <= marked.steps.size(); ++shift) {
    double first = INFINITY, last = -INFINITY;
    for (size_t s = 0; s < found.steps.size(); ++s) {
      const StepResult &a = found.steps[s], &b = marked.steps[s + shift];
      const double off = static_cast<double>(a.start_ns - b.start_ns) / 1000 / marked.step_us;
      first = std::min(first, off);
      last = std::max(last, off);
    }
    least = std::min(least, last - first);
  }
  EXPECT_LT(least, 0.25);
}

TEST(HiddenMarks, OfSimulatedJobs) {
  struct Layout {
    int pipeline, tensor;
    bool sharded;
  };
  for (const Layout l : {Layout{1, 0, false}, Layout{1, 0, true}, Layout{1, 2, false}, Layout{2, 0, false}}) {
    SCOPED_TRACE(std::to_string(l.pipeline) + " stages, tensor parallel " + std::to_string(l.tensor) +
                 (l.sharded ? ", sharded" : ""));
    test::TempDir dir;
    sim::JobConfig c;
    c.ranks = 8;
    c.gpus_per_node = 4;
    c.events = 8 * 8000;
    c.pipeline = l.pipeline;
    c.tensor = l.tensor;
    c.sharded = l.sharded;
    c.faults = sim::Faults::none();
    const Status s = sim::synthesize(c, dir / "t.sbt", 2);
    ASSERT_TRUE(s) << s.message();
    expectSameSteps(dir / "t.sbt", "operations", 3);
  }
}

/// Profiles of torch, each with the steps its profiler marked.
TEST(HiddenMarks, OfTorchProfiles) {
  const std::string from = test::sharedDir() + "/traces/";
  if (!std::filesystem::exists(from + "v100-nanosecond.json.gz")) GTEST_SKIP() << "the real traces are not here";
  for (const char* file : {"v100-nanosecond", "v100-resnet50-old-schema"}) {
    SCOPED_TRACE(file);
    test::TempDir dir;
    const test::Output o = test::tracesmith({"import", "--force", "-o", dir / "t.sbt", from + file + ".json.gz"});
    ASSERT_EQ(o.rc, 0) << o.err;
    expectSameSteps(dir / "t.sbt", "optimizer", 1);
  }
}

}  // namespace
}  // namespace tracesmith::analysis
