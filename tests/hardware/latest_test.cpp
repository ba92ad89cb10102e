// The newest values: what is there, what is gone, and what was before.
#include <gtest/gtest.h>

#include <cmath>

#include "hardware/latest.hpp"

namespace tracesmith::hardware {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Sample sample(Metric metric, int32_t device, double value, int64_t ts_ns, std::string_view part = {}) {
  return {ts_ns, device, &metricInfo(metric), part, value};
}

Latest::Cell cell(const Latest& latest, Metric metric, int32_t device) {
  Latest::Cell out;
  latest.read([&](const Latest::View& view) { out = view.get(metric, device); });
  return out;
}

TEST(LatestValues, AreOfTheirDeviceAndSayWhenTheyCame) {
  Latest latest;
  latest.samples(std::vector{sample(Metric::gpu_power_watts, 3, 200, kSecond)}, 2 * kSecond);
  latest.samples(std::vector{sample(Metric::gpu_power_watts, 3, 250, 3 * kSecond)}, 4 * kSecond);
  const Latest::Cell power = cell(latest, Metric::gpu_power_watts, 3);
  EXPECT_EQ(power.now.value, 250);
  EXPECT_EQ(power.before.value, 200);
  EXPECT_EQ(power.now.ts_ns, 3 * kSecond);
  EXPECT_EQ(power.seen_ns, 4 * kSecond);
  EXPECT_FALSE(cell(latest, Metric::gpu_power_watts, 2).known());
  EXPECT_FALSE(cell(latest, Metric::gpu_power_watts, 99).known());
  EXPECT_FALSE(cell(latest, Metric::gpu_fan_percent, 3).known());
}

TEST(LatestValues, AValueThatIsNotSupportedAnyMoreIsGone) {
  Latest latest;
  latest.samples(std::vector{sample(Metric::gpu_power_watts, 0, 200, kSecond)});
  latest.samples(std::vector{sample(Metric::gpu_power_watts, 0, std::nan(""), 2 * kSecond)});
  EXPECT_FALSE(cell(latest, Metric::gpu_power_watts, 0).known());
  EXPECT_TRUE(latest.state().values.empty());
}

TEST(LatestValues, AForgottenDeviceHasNone) {
  Latest latest(4);
  for (int32_t device : {0, 1}) latest.samples(std::vector{sample(Metric::gpu_power_watts, device, 200, kSecond)});
  latest.forget(0);
  EXPECT_FALSE(cell(latest, Metric::gpu_power_watts, 0).known());
  EXPECT_TRUE(cell(latest, Metric::gpu_power_watts, 1).known());
  latest.read([](const Latest::View& view) {
    EXPECT_TRUE(view.history(Metric::gpu_power_watts, 0).empty());
    EXPECT_EQ(view.history(Metric::gpu_power_watts, 1).size(), 1u);
  });
}

TEST(LatestValues, AreListedByMetricAndDeviceTheWholeBeforeItsParts) {
  Latest latest;
  latest.samples(std::vector{sample(Metric::host_cpu_busy_percent, -1, 10, kSecond, "1"),
                             sample(Metric::host_cpu_busy_percent, -1, 20, kSecond),
                             sample(Metric::gpu_power_watts, 1, 30, kSecond)});
  const Latest::State state = latest.state();
  ASSERT_EQ(state.values.size(), 3u);
  EXPECT_EQ(state.values[0].value, 30);
  EXPECT_EQ(state.values[1].value, 20);
  EXPECT_EQ(state.values[2].part, "1");
  ASSERT_TRUE(state.find(Metric::host_cpu_busy_percent, -1));
  EXPECT_EQ(state.find(Metric::host_cpu_busy_percent, -1)->value, 20);
}

TEST(LatestValues, KeepAHistoryOfSoManyReadings) {
  Latest latest(3);
  for (int i = 1; i <= 5; ++i) {
    latest.samples(std::vector{sample(Metric::gpu_power_watts, 0, 100 * i, i * kSecond),
                               sample(Metric::gpu_energy_joules, 0, 50 * i * i, i * kSecond)});
  }
  const Latest::State state = latest.state();
  EXPECT_EQ(state.find(Metric::gpu_power_watts, 0)->history, (std::deque<double>{300, 400, 500}));
  EXPECT_EQ(state.find(Metric::gpu_energy_joules, 0)->history, (std::deque<double>{250, 350, 450}));
  EXPECT_EQ(state.find(Metric::gpu_energy_joules, 0)->rate(), 450);
}

TEST(LatestValues, OfProcessesThatEndedGoAndThoseOfDevicesStay) {
  Latest latest;
  latest.samples(std::vector{sample(Metric::gpu_power_watts, 0, 200, kSecond)});
  std::vector<std::string> pids(5000);
  for (size_t i = 0; i < pids.size(); ++i) {
    pids[i] = std::to_string(i);
    const int64_t ts_ns = i < 4000 ? kSecond : 100 * kSecond;
    latest.samples(std::vector{sample(Metric::gpu_process_memory_bytes, 0, 1, ts_ns, pids[i])});
  }
  const Latest::State state = latest.state();
  EXPECT_FALSE(state.find(Metric::gpu_process_memory_bytes, 0, "17"));
  EXPECT_TRUE(state.find(Metric::gpu_process_memory_bytes, 0, "4999"));
  EXPECT_TRUE(state.find(Metric::gpu_power_watts, 0));
}

}  // namespace
}  // namespace tracesmith::hardware
