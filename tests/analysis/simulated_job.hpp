// A simulated job, analyzed.
#pragma once

#include <gtest/gtest.h>

#include "capture/sim/rows.hpp"
#include "support/process.hpp"
#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

inline Analysis analyzed(const sim::JobConfig& config) {
  test::TempDir dir;
  const Status s = sim::synthesize(config, dir / "t.sbt", 2);
  EXPECT_TRUE(s) << s.message();
  auto reader = trace::Reader::open(dir / "t.sbt");
  EXPECT_TRUE(reader);
  auto result = analyze(**reader);
  EXPECT_TRUE(result) << result.status().message();
  return std::move(*result);
}

}  // namespace tracesmith::analysis
