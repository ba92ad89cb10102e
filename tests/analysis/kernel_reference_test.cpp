// Which kernels are launched by several processes, and can be compared.
#include "analysis/rows/kernel_reference.hpp"

#include <gtest/gtest.h>

#include "support/process.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::analysis {
namespace {

/// Ten kernels of each of these processes, which have no rank.
KernelReference sampleOf(std::initializer_list<int64_t> pids, uint32_t& name) {
  test::TempDir dir;
  auto writer = trace::Writer::create(dir / "t.sbt");
  EXPECT_TRUE(writer);
  auto out = (*writer)->appender();
  for (int i = 0; i < 10; ++i)
    for (int64_t pid : pids) {
      trace::EventRow row;
      row.type = static_cast<int64_t>(trace::EventType::kernel);
      row.name = (*writer)->string("gemm");
      row.pid = pid;
      row.stream = 7;
      row.ts = 1000 * i;
      row.dur = 100;
      EXPECT_TRUE(out->append(row));
    }
  EXPECT_TRUE(out->flush());
  EXPECT_TRUE((*writer)->close());
  auto reader = trace::Reader::open(dir / "t.sbt");
  EXPECT_TRUE(reader);
  Result<trace::NameNumbers> names = trace::NameNumbers::load(**reader);
  EXPECT_TRUE(names);
  for (name = 0; names->text(name) != "gemm";) ++name;
  return KernelReference::sample(**reader, *names);
}

TEST(KernelReference, OneProcessWithoutARankIsAlone) {
  uint32_t name;
  const KernelReference one = sampleOf({4711}, name);
  EXPECT_TRUE(one.alone());
  ASSERT_NE(one.of(name, trace::kNoName), nullptr);
  EXPECT_EQ(one.of(name, trace::kNoName)->count, 10u);
  EXPECT_EQ(one.of(name, trace::kNoName)->process, -1 - 4711);
  EXPECT_FALSE(one.of(name, trace::kNoName)->several);
}

TEST(KernelReference, TwoProcessesAreCompared) {
  uint32_t name;
  const KernelReference two = sampleOf({4711, 4712}, name);
  EXPECT_FALSE(two.alone());
  ASSERT_NE(two.of(name, trace::kNoName), nullptr);
  EXPECT_TRUE(two.of(name, trace::kNoName)->several);
}

}  // namespace
}  // namespace tracesmith::analysis
