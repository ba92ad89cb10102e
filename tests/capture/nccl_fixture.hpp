// The NCCL plugin, called as NCCL calls it, in a program under `tracesmith run`.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "capture/under_run.hpp"

namespace tracesmith {

class NcclTest : public ::testing::Test {
 protected:
  Output run(const std::vector<std::string>& scenario, const std::vector<std::string>& flags = {},
             const test::Environment& more = {}) {
    std::vector<std::string> argv = {TRACESMITH_BIN, "run", "--force", "-o", trace()};
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.insert(argv.end(), {"--", kBuild + "/bin/tests/fake_nccl"});
    argv.insert(argv.end(), scenario.begin(), scenario.end());
    test::Environment environment = {{"TRACESMITH_DIR", dir_ / "rings"},
                                     {"TRACESMITH_CUPTI", kBuild + "/lib/tests/libcupti.so.13"},
                                     {"FAKE_OTHER_PROFILER", kBuild + "/lib/tests/libfake_other_profiler.so"},
                                     {"FAKE_LIBCUDA", kBuild + "/lib/tests/driver/libcuda.so.1"},
                                     {"RANK", "11"}};
    environment.insert(environment.end(), more.begin(), more.end());
    return test::runWith(environment, argv);
  }
  std::string trace() const { return dir_ / "t.sbt"; }
  std::vector<Row> collectives() const { return rows(trace(), "collectives"); }
  /// Correlation → kernel row.
  std::map<int64_t, Row> kernels() const {
    std::map<int64_t, Row> out;
    for (Row& r : rows(trace(), "events", "type", "kernel")) out[r.i("correlation")] = r;
    return out;
  }
  /// That a row says what its kernel says.
  void expectKernel(const Row& c, const std::map<int64_t, Row>& kernels) const {
    auto kernel = kernels.find(c.i("correlation"));
    ASSERT_NE(kernel, kernels.end()) << c.s("op") << " " << c.i("seq") << " has no kernel";
    for (const char* same : {"ts", "dur", "device", "stream"}) EXPECT_EQ(c.i(same), kernel->second.i(same)) << same;
    EXPECT_EQ(c.s("name"), kernel->second.s("name"));
    EXPECT_LE(c.i("ts_enqueue"), c.i("ts_end"));
  }
  static void expectInFlight(const Row& c) {
    for (const char* none : {"ts", "dur", "correlation", "stream", "device", "name"}) EXPECT_TRUE(c.null(none)) << none;
    EXPECT_FALSE(c.null("ts_enqueue"));
  }

  static bool timedByEvents(const Row& c) { return c.s("name") == "timed by CUDA events"; }
  /// How wrong the start may be, ns.
  static int64_t boundOf(const Row& c) {
    const std::string key = "{\"event_bound_ns\":", args = c.s("args");
    return args.starts_with(key) ? std::stoll(args.substr(key.size())) : -1;
  }

  TempDir dir_;
};

}  // namespace tracesmith
