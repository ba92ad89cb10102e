// What two traces are compared by.
#include "tracesmith/analysis/diff.hpp"

#include <gtest/gtest.h>

#include "support/process.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

/// 8 marked steps of 5 kernels each. `start_up`: kernels of the same name before the first.
void write(const std::string& path, int start_up) {
  auto writer = Writer::create(path);
  ASSERT_TRUE(writer);
  {
    auto out = (*writer)->appender();
    int64_t now = 1000;
    auto kernel = [&] {
      EventRow e;
      e.ts = now;
      e.dur = 10'000;
      e.type = static_cast<int64_t>(EventType::kernel);
      e.name = (*writer)->string("gemm");
      e.rank = 0;
      e.device = 0;
      e.stream = 7;
      EXPECT_TRUE(out->append(e));
      now += 12'000;
    };
    for (int i = 0; i < start_up; ++i) kernel();
    for (int step = 0; step < 8; ++step) {
      StepRow s;
      s.ts = now;
      s.rank = 0;
      s.step = step;
      for (int i = 0; i < 5; ++i) kernel();
      s.dur = now - s.ts;
      EXPECT_TRUE(out->append(s));
    }
    EXPECT_TRUE(out->flush());
  }
  ASSERT_TRUE((*writer)->close());
}

TEST(Diff, StartUpIsNotCounted) {
  test::TempDir dir;
  write(dir / "a.sbt", 0);
  write(dir / "b.sbt", 1000);
  auto a = Reader::open(dir / "a.sbt"), b = Reader::open(dir / "b.sbt");
  ASSERT_TRUE(a && b);
  const Result<Diff> d = diff(**a, **b);
  ASSERT_TRUE(d) << d.status().message();
  EXPECT_EQ(d->before_startup_us, 0);
  EXPECT_DOUBLE_EQ(d->after_startup_us, 12'000);
  ASSERT_EQ(d->names.size(), 1u);
  EXPECT_EQ(d->names[0].before_count, 5);
  EXPECT_EQ(d->names[0].after_count, 5);
  EXPECT_DOUBLE_EQ(d->names[0].before_us, d->names[0].after_us);
}

}  // namespace
}  // namespace tracesmith::analysis
