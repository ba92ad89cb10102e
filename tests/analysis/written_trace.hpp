// A trace written row by row, and what the analysis says of it.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "support/process.hpp"
#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::analysis {

class WrittenTrace {
 public:
  WrittenTrace() : writer_(std::move(*trace::Writer::create(dir_ / "t.sbt"))), out_(writer_->appender()) {}

  int64_t string(const std::string& s) { return writer_->string(s); }
  int64_t text(const std::string& s) { return out_->text(s); }
  template <typename Row>
  void add(const Row& row) {
    EXPECT_TRUE(out_->append(row));
  }
  /// A sample, so that the node was recorded until then.
  void recordedUntil(int64_t ts, int64_t node) {
    trace::MetricRow m;
    m.ts = ts;
    m.node = node;
    m.name = string("gpu_power_watts");
    add(m);
  }
  /// Call once, at the end.
  Analysis analyzed() {
    EXPECT_TRUE(out_->flush());
    out_.reset();
    EXPECT_TRUE(writer_->close());
    auto reader = trace::Reader::open(dir_ / "t.sbt");
    EXPECT_TRUE(reader);
    auto result = analyze(**reader);
    EXPECT_TRUE(result) << result.status().message();
    return std::move(*result);
  }

 private:
  test::TempDir dir_;
  std::unique_ptr<trace::Writer> writer_;
  std::unique_ptr<trace::Appender> out_;
};

}  // namespace tracesmith::analysis
