// Registering devices, their telemetry, and all of them together.
#include "tracesmith/schedule/gpu_clustering_manager.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "schedule/cluster.hpp"

namespace tracesmith::schedule {
namespace {

using test::device;
using test::kSecond;
using test::metrics;

class Manager : public testing::Test {
 protected:
  void add(const std::string& id) { ASSERT_TRUE(manager_.registerDevice(device(id)).ok()); }
  Status record(const GPUMetrics& m, int64_t seen_ns = kSecond) { return manager_.recordMetrics(m, seen_ns); }

  GPUClusteringManager manager_;
};

TEST_F(Manager, ListsDevicesInTheOrderTheyCame) {
  add("cuda:1");
  add("cuda:0");
  add("cuda:1");
  ASSERT_EQ(manager_.listDevices().size(), 2u);
  EXPECT_EQ(manager_.listDevices()[0].device_id, "cuda:1");
  EXPECT_EQ(manager_.getDevice("cuda:0")->name, "GPU");
  EXPECT_FALSE(manager_.getDevice("cuda:2"));
  EXPECT_EQ(manager_.registerDevice({}).message(), "a device needs a device_id");
}

TEST_F(Manager, KeepsTheNewestReportAsItWasGiven) {
  add("cuda:0");
  GPUMetrics given = metrics("cuda:0", 8e9, 50, 65);
  given.timestamp = 1707043200.123457;
  given.power_watts = 150;
  given.clock_rate_mhz = 2500;
  ASSERT_TRUE(record(given).ok());
  const std::optional<GPUMetrics> kept = manager_.getMetrics("cuda:0");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->device_id, "cuda:0");
  EXPECT_EQ(kept->timestamp, 1707043200.123457);
  EXPECT_EQ(kept->memory_used_bytes, 8'000'000'000u);
  EXPECT_EQ(kept->memory_total_bytes, 24'000'000'000u);
  EXPECT_EQ(kept->compute_utilization_percent, 50);
  EXPECT_EQ(kept->power_watts, 150);
  EXPECT_EQ(kept->temperature_celsius, 65);
  EXPECT_EQ(kept->clock_rate_mhz, 2500);
}

TEST_F(Manager, WhatAReportDoesNotHaveIsAbsentAlsoIfAnEarlierOneHadIt) {
  add("cuda:0");
  ASSERT_TRUE(record(metrics("cuda:0", 8e9, 50, 65)).ok());
  GPUMetrics less = metrics("cuda:0", 8e9, 50, 65);
  less.temperature_celsius.reset();
  ASSERT_TRUE(record(less).ok());
  EXPECT_FALSE(manager_.getMetrics("cuda:0")->temperature_celsius);
  EXPECT_FALSE(manager_.getMetrics("cuda:0")->power_watts);
  const std::vector<GPUMetrics> history = manager_.getHistory("cuda:0");
  ASSERT_EQ(history.size(), 2u);
  EXPECT_EQ(history[0].temperature_celsius, 65);
  EXPECT_FALSE(history[1].temperature_celsius);
}

TEST_F(Manager, HistoryHasSoManyReports) {
  add("cuda:0");
  for (int i = 0; i < 150; ++i) {
    GPUMetrics m = metrics("cuda:0", 1e9, 50, 65);
    m.timestamp = 1000 + i;
    ASSERT_TRUE(record(m).ok());
  }
  const std::vector<GPUMetrics> history = manager_.getHistory("cuda:0");
  ASSERT_EQ(history.size(), 100u);
  EXPECT_EQ(history.front().timestamp, 1050);
  EXPECT_EQ(history.back().timestamp, 1149);
}

TEST_F(Manager, ReportsThatCannotBeAreErrorsAndChangeNothing) {
  add("cuda:0");
  ASSERT_TRUE(record(metrics("cuda:0", 8e9, 50, 65)).ok());
  EXPECT_EQ(record(metrics("cuda:9", 8e9, 50, 65)).code(), Code::kNotFound);
  GPUMetrics early = metrics("cuda:0", 1, 1, 1);
  early.timestamp -= 1;
  GPUMetrics empty = metrics("cuda:0", 0, 1, 1);
  empty.memory_total_bytes = 0;
  GPUMetrics odd = metrics("cuda:0", 1, 1, 1);
  odd.power_watts = -1;
  for (const GPUMetrics& bad :
       {metrics("cuda:0", 25e9, 50, 65), metrics("cuda:0", 1, 101, 65), metrics("cuda:0", 1, -1, 65),
        metrics("cuda:0", 1, std::nan(""), 65), metrics("cuda:0", 1, 50, -274), early, empty, odd})
    EXPECT_EQ(record(bad).code(), Code::kInvalid);
  EXPECT_EQ(manager_.getMetrics("cuda:0")->memory_used_bytes, 8'000'000'000u);
  EXPECT_EQ(manager_.getHistory("cuda:0").size(), 1u);
}

TEST_F(Manager, AggregatesOverAllDevices) {
  for (const char* id : {"a", "b", "c"}) add(id);
  ASSERT_TRUE(record(metrics("a", 8e9, 30, 60)).ok());
  ASSERT_TRUE(record(metrics("b", 8e9, 40, 65)).ok());
  GPUMetrics c = metrics("c", 8e9, 50, 70);
  c.power_watts = 300;
  ASSERT_TRUE(record(c).ok());
  const AggregatedMetrics all = manager_.getAggregatedMetrics(2 * kSecond);
  EXPECT_EQ(all.device_count, 3u);
  EXPECT_EQ(all.total_memory_bytes, 72'000'000'000u);
  EXPECT_EQ(all.used_memory_bytes, 24'000'000'000u);
  EXPECT_EQ(all.available_memory_bytes, 48'000'000'000u);
  EXPECT_EQ(all.average_utilization_percent, 40);
  EXPECT_EQ(all.average_temperature_celsius, 65);
  EXPECT_EQ(all.total_power_watts, 300) << "of the one that reports it";
  EXPECT_EQ(all.timestamp, "2024-02-04T10:40:00.000Z");
}

TEST_F(Manager, WhatNobodyReportsIsAbsentAndWhatIsTooOldIsNotInTheSums) {
  for (const char* id : {"a", "b", "c"}) add(id);
  ASSERT_TRUE(record(metrics("a", 8e9, 30, 60), kSecond).ok());
  ASSERT_TRUE(record(metrics("b", 4e9, 50, 60), 100 * kSecond).ok());
  const AggregatedMetrics all = manager_.getAggregatedMetrics(101 * kSecond);
  EXPECT_EQ(all.device_count, 3u);
  EXPECT_EQ(all.reporting_count, 1u);
  EXPECT_EQ(all.stale_count, 1u);
  EXPECT_EQ(all.used_memory_bytes, 4'000'000'000u);
  EXPECT_EQ(all.average_utilization_percent, 50);
  EXPECT_FALSE(all.total_power_watts);
  const AggregatedMetrics none = GPUClusteringManager().getAggregatedMetrics();
  EXPECT_EQ(none.device_count, 0u);
  EXPECT_FALSE(none.total_memory_bytes);
  EXPECT_EQ(none.timestamp, "");
}

TEST_F(Manager, ADeviceThatIsGoneTakesItsTelemetryWithIt) {
  add("a");
  add("b");
  ASSERT_TRUE(record(metrics("a", 8e9, 30, 60)).ok());
  EXPECT_TRUE(manager_.unregisterDevice("a"));
  EXPECT_FALSE(manager_.unregisterDevice("a"));
  EXPECT_EQ(manager_.listDevices().size(), 1u);
  EXPECT_EQ(record(metrics("a", 8e9, 30, 60)).code(), Code::kNotFound);
  add("a");
  EXPECT_FALSE(manager_.getMetrics("a"));
  EXPECT_TRUE(manager_.getHistory("a").empty());
}

TEST_F(Manager, DistributesByTheStrategyAskedFor) {
  for (const char* id : {"a", "b"}) add(id);
  WorkRequest work;
  work.tasks = 9;
  EXPECT_EQ(*manager_.distributeWorkload(work), (std::vector<Share>{{"a", 5}, {"b", 4}}));
  work.strategy = "capacity";
  work.capacities = {{"a", 1}, {"b", 2}};
  EXPECT_EQ(*manager_.distributeWorkload(work), (std::vector<Share>{{"a", 3}, {"b", 6}}));
  work.max_per_device = 5;
  EXPECT_EQ(*manager_.distributeWorkload(work), (std::vector<Share>{{"a", 4}, {"b", 5}}));
  work.capacities = {{"a", 1}};
  EXPECT_EQ(manager_.distributeWorkload(work).status().message(),
            "there is no capacity for 'b': give 0 if it is to get no work");
  work.capacities = {{"a", 1}, {"b", 1}, {"x", 1}};
  EXPECT_EQ(manager_.distributeWorkload(work).status().code(), Code::kNotFound);
  work.strategy = "magic";
  EXPECT_EQ(manager_.distributeWorkload(work).status().message(), "unknown strategy 'magic': use uniform or capacity");
}

TEST_F(Manager, MeasuredSpeedIsTheCapacityIfNoneIsGiven) {
  GPUDevice fast = device("fast"), slow = device("slow");
  fast.matrix_tflops = {{"bf16", 600}};
  slow.matrix_tflops = {{"bf16", 200}};
  ASSERT_TRUE(manager_.registerDevice(fast).ok() && manager_.registerDevice(slow).ok());
  WorkRequest work;
  work.tasks = 8;
  work.strategy = "capacity";
  EXPECT_EQ(*manager_.distributeWorkload(work), (std::vector<Share>{{"fast", 6}, {"slow", 2}}));
  work.precision = "fp8";
  EXPECT_EQ(manager_.distributeWorkload(work).status().message(),
            "the speed of 'fast' in fp8 was not measured: give capacities, or run tracesmith bench hardware there");
}

TEST_F(Manager, LayersGoByTheMemoryThatIsFree) {
  for (const char* id : {"a", "b"}) add(id);
  ASSERT_TRUE(record(metrics("a", 16e9, 30, 60), 0).ok());
  EXPECT_EQ(manager_.distributeLayers(12).status().message(),
            "the free memory of 'b' is not known: it sent no telemetry for 30 s");
  ASSERT_TRUE(record(metrics("b", 8e9, 30, 60), 0).ok());
  EXPECT_EQ(*manager_.distributeLayers(12), (std::vector<Share>{{"a", 4}, {"b", 8}}));
  EXPECT_EQ(manager_.distributeLayers(12, 4'000'000'000).status().message(),
            "12 layers do not fit: the limits leave room for 6");
}

}  // namespace
}  // namespace tracesmith::schedule
