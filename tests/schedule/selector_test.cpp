// Choosing devices: scores, constraints, what is not known, and locality.
#include <gtest/gtest.h>

#include "hardware/latest.hpp"
#include "schedule/cluster.hpp"
#include "schedule/node.hpp"
#include "tracesmith/schedule/gpu_clustering_manager.hpp"

namespace tracesmith::schedule {
namespace {

using test::device;
using test::kSecond;
using test::metrics;

constexpr uint64_t kMost = 24'000'000'000;

class Selecting : public testing::Test {
 protected:
  void add(const GPUDevice& d) { ASSERT_TRUE(manager_.registerDevice(d).ok()); }
  void add(const std::string& id, double used, double utilization, double celsius, int64_t seen_ns = kSecond) {
    add(device(id));
    const Status status = manager_.recordMetrics(metrics(id, used, utilization, celsius), seen_ns);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  Selection select(const SelectionRequest& request = {}, int64_t now_ns = 2 * kSecond) {
    Result<Selection> selection = manager_.select(request, now_ns);
    EXPECT_TRUE(selection.ok()) << selection.status().message();
    return selection.ok() ? *selection : Selection();
  }
  std::vector<std::string> chosen(const SelectionRequest& request = {}, int64_t now_ns = 2 * kSecond) {
    std::vector<std::string> ids;
    for (const Choice& c : select(request, now_ns).devices) ids.push_back(c.device_id);
    return ids;
  }
  Reason reason(const std::string& id, const SelectionRequest& request = {}, int64_t now_ns = 2 * kSecond) {
    for (const Rejection& r : select(request, now_ns).rejected)
      if (r.device_id == id) return r.reason;
    return Reason::none;
  }

  GPUClusteringManager manager_;
};
using Ids = std::vector<std::string>;

TEST(Score, IsOfMemoryIdlenessAndTemperature) {
  auto score = [](double used, double utilization, double celsius) {
    return DeviceSelector::score(metrics("x", used, utilization, celsius), kMost);
  };
  EXPECT_DOUBLE_EQ(score(8e9, 50, 65), .6);
  EXPECT_DOUBLE_EQ(score(20e9, 80, 75), .18);
  EXPECT_DOUBLE_EQ(score(22e9, 80, 85), .11375);
  EXPECT_DOUBLE_EQ(score(0, 0, 100), .5);
  EXPECT_DOUBLE_EQ(score(0, 0, 130), .1);
  EXPECT_EQ(DeviceSelector::score(metrics("x", 0, 0, 20), 0), 0);
}

TEST(Score, WhatIsNotKnownAddsNothing) {
  GPUMetrics m = metrics("x", 0, 0, 50);
  m.memory_used_bytes.reset();
  EXPECT_DOUBLE_EQ(DeviceSelector::score(m, kMost), .4);
  m.compute_utilization_percent.reset();
  EXPECT_EQ(DeviceSelector::score(m, kMost), 0);
}

TEST_F(Selecting, TakesTheBest) {
  add("busy", 20e9, 80, 75);
  add("free", 8e9, 50, 65);
  EXPECT_EQ(chosen(), Ids{"free"});
  EXPECT_EQ(select().suitable, 2u);
  SelectionRequest three;
  three.count = 3;
  EXPECT_EQ(chosen(three), (Ids{"free", "busy"}));
}

TEST_F(Selecting, TakesTheFirstOfEqualOnes) {
  for (const char* id : {"c", "a", "b"}) add(id, 8e9, 50, 65);
  EXPECT_EQ(chosen(), Ids{"c"});
}

TEST_F(Selecting, WantsSoMuchFreeMemory) {
  add("free", 8e9, 50, 65);
  add("full", 22e9, 10, 40);
  SelectionRequest request;
  request.min_memory_bytes = 5'000'000'000;
  EXPECT_EQ(chosen(request), Ids{"free"});
  EXPECT_EQ(reason("full", request), Reason::too_little_memory);
  request.min_memory_bytes = 20'000'000'000;
  EXPECT_TRUE(chosen(request).empty());
  EXPECT_FALSE(manager_.selectBestDevice(20'000'000'000));
}

TEST_F(Selecting, ADeviceWithoutTelemetryIsNotTakenAndSaidWhy) {
  add(device("silent"));
  EXPECT_TRUE(chosen().empty());
  EXPECT_EQ(reason("silent"), Reason::no_telemetry);
}

TEST_F(Selecting, OldTelemetryDoesNotCount) {
  add("old", 0, 0, 30, kSecond);
  add("new", 20e9, 90, 75, 100 * kSecond);
  EXPECT_EQ(chosen({}, 101 * kSecond), Ids{"new"});
  EXPECT_EQ(reason("old", {}, 101 * kSecond), Reason::stale);
  SelectionRequest any;
  any.max_age_s = 0;
  EXPECT_EQ(chosen(any, 101 * kSecond), Ids{"old"});
}

TEST_F(Selecting, UnknownMemoryIsNotFreeMemory) {
  GPUDevice unified = device("apple");
  unified.vendor = "apple";
  unified.memory_bytes.reset();
  add(unified);
  GPUMetrics m;
  m.device_id = "apple";
  m.timestamp = 1707043200;
  m.compute_utilization_percent = 0;
  ASSERT_TRUE(manager_.recordMetrics(m, kSecond).ok());
  add("nvidia", 20e9, 20, 60);
  EXPECT_EQ(chosen(), Ids{"nvidia"}) << "0.42 against 0.4";
  SelectionRequest request;
  request.min_memory_bytes = 1;
  EXPECT_EQ(reason("apple", request), Reason::memory_unknown);
  SelectionRequest both;
  both.count = 2;
  const Selection selection = select(both);
  ASSERT_EQ(selection.devices.size(), 2u);
  EXPECT_FALSE(selection.devices[1].memory_free_bytes);
  EXPECT_FALSE(selection.devices[1].temperature_celsius);
}

TEST_F(Selecting, KeepsToLimitsOfHeatAndLoad) {
  add("hot", 0, 0, 79);
  add("busy", 0, 70, 50);
  SelectionRequest cool, idle;
  cool.max_temperature_celsius = 70;
  idle.max_utilization_percent = 50;
  EXPECT_EQ(chosen(cool), Ids{"busy"});
  EXPECT_EQ(reason("hot", cool), Reason::too_hot);
  EXPECT_EQ(chosen(idle), Ids{"hot"});
  EXPECT_EQ(reason("busy", idle), Reason::too_busy);
}

TEST_F(Selecting, AFullAndBusyDeviceIsNeverTaken) {
  add("full", 24e9, 100, 60);
  EXPECT_EQ(reason("full"), Reason::no_score);
}

TEST_F(Selecting, FiveVendorsAndTheirPrecisions) {
  for (const char* vendor : {"nvidia", "amd", "intel", "apple", "qualcomm"}) {
    add(vendor, 8e9, 50, 65);
    GPUDevice d = device(vendor);
    d.vendor = vendor;
    add(d);
  }
  for (const char* vendor : {"nvidia", "amd", "intel", "apple", "qualcomm"}) {
    SelectionRequest request;
    request.vendor = vendor;
    EXPECT_EQ(chosen(request), Ids{vendor});
  }
  GPUDevice amd = device("amd"), intel = device("intel"), old = device("nvidia");
  amd.matrix_tflops = {{"bf16", 900}};
  intel.precisions = {"bf16"};
  old.compute_capability = "7.5";
  add(amd), add(intel), add(old);
  SelectionRequest request;
  request.precision = "bf16";
  request.count = 9;
  EXPECT_EQ(chosen(request), (Ids{"amd", "intel"}));
  EXPECT_EQ(reason("nvidia", request), Reason::no_precision);
  EXPECT_EQ(reason("apple", request), Reason::precision_unknown);
  request.precision = "fp3";
  EXPECT_EQ(manager_.select(request).status().message(),
            "unknown precision 'fp3': use one of fp64, fp32, tf32, fp16, bf16, fp8, int8, fp4");
}

TEST(Precision, FollowsTheComputeCapability) {
  GPUDevice d = device("x");
  auto can = [&](const char* capability, const char* precision) {
    d.compute_capability = capability;
    return supports(d, precision);
  };
  EXPECT_EQ(can("7.0", "fp16"), true);
  EXPECT_EQ(can("7.5", "bf16"), false);
  EXPECT_EQ(can("8.0", "bf16"), true);
  EXPECT_EQ(can("8.6", "fp8"), false);
  EXPECT_EQ(can("8.9", "fp8"), true);
  EXPECT_EQ(can("9.0", "fp4"), false);
  EXPECT_EQ(can("10.0", "fp4"), true);
  EXPECT_EQ(can("", "fp32"), std::nullopt);
  EXPECT_EQ(can("gfx942", "fp32"), std::nullopt);
}

TEST_F(Selecting, LeavesOutWhatIsExcludedOrBroken) {
  for (const char* id : {"a", "b", "c"}) add(id, 8e9, 50, 65);
  GPUDevice broken = device("a");
  broken.problem = "GPU is lost";
  add(broken);
  SelectionRequest request;
  request.exclude = {"b"};
  EXPECT_EQ(chosen(request), Ids{"c"});
  EXPECT_EQ(reason("a", request), Reason::problem);
  EXPECT_EQ(reason("b", request), Reason::excluded);
  request.exclude = {"x"};
  EXPECT_EQ(manager_.select(request).status().code(), Code::kNotFound);
}

/// Two pairs of GPUs with NVLink inside a pair; what was measured between 0 and 3 is more than the driver says.
hardware::Inventory twoPairs() {
  hardware::Inventory inventory;
  inventory.node = "n";
  for (int i = 0; i < 4; ++i) {
    hardware::Gpu& g = inventory.gpus.emplace_back();
    g.index = i;
    g.vendor = "nvidia";
    g.pci = "0000:0" + std::to_string(i) + ":00.0";
    g.pcie_generation = 4;
    g.pcie_lanes = 16;
    g.memory_bytes = kMost;
    hardware::NvLink link;
    link.active = true;
    link.version = 3;
    link.speed_mbps = 25000;
    link.remote = hardware::NvLink::Remote::gpu;
    link.remote_pci = "0000:0" + std::to_string(i ^ 1) + ":00.0";
    g.links.assign(8, link);
  }
  return inventory;
}

TEST_F(Selecting, TheNearestComesFirstByWhatWasMeasured) {
  hardware::Capability capability;
  ASSERT_TRUE(registerNode(manager_, twoPairs(), capability).ok());
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(manager_.recordMetrics(metrics(deviceId("n", i), i * 1e9, 50, 65), kSecond).ok());
  add("far", 0, 0, 30);
  SelectionRequest request;
  request.near = "n:3";
  request.count = 4;
  EXPECT_EQ(chosen(request), (Ids{"n:2", "n:0", "n:1", "far"}));
  EXPECT_EQ(reason("n:3", request), Reason::near_itself);
  EXPECT_EQ(select(request).devices[0].near_gbps, 200);
  EXPECT_FALSE(select(request).devices[3].near_gbps);

  capability.set({"link_gbps", "GB/s", "3-1", 300, 300, 300, 5});
  ASSERT_TRUE(registerNode(manager_, twoPairs(), capability).ok());
  request.near = "3";
  EXPECT_EQ(chosen(request), (Ids{"n:1", "n:2", "n:0", "far"}));
  request.near = "7";
  EXPECT_EQ(manager_.select(request).status().message(), "there is no device '7'");
}

TEST_F(Selecting, ANameThatSeveralDevicesHaveIsAnError) {
  for (const char* id : {"a:0", "b:0", "b:1"}) add(id, 8e9, 50, 65);
  SelectionRequest request;
  request.near = "1";
  EXPECT_EQ(reason("b:1", request), Reason::near_itself);
  request.near = "0";
  EXPECT_EQ(manager_.select(request).status().message(), "several devices are called '0': use a:0, b:0");
}

TEST_F(Selecting, WhatANodeToldItsMasterGivesTheSameDevices) {
  model::NodeStatus node;
  node.node = "n";
  for (uint32_t i = 0; i < 3; ++i) {
    model::DeviceStatus& d = node.gpus.emplace_back();
    d.index = i;
    d.vendor = "nvidia";
    d.cc_major = 8;
    d.cc_minor = 9;
    d.memory_bytes = kMost;
  }
  node.links.push_back({0, 1, 16, 30.0, {}, "PCIe"});
  node.links.push_back({0, 2, 4, 100.0, 90.0, "NVLink3"});
  node.figures.push_back({700, 690, 710, "TFLOP/s", "gpu 2 bf16", "gpu_matrix_tflops"});
  ASSERT_TRUE(registerNode(manager_, node).ok());
  EXPECT_EQ(manager_.getDevice("n:2")->matrix_tflops.at("bf16"), 700);
  EXPECT_EQ(manager_.getDevice("n:1")->compute_capability, "8.9");
  model::NodeReport report;
  report.node = "n";
  for (uint32_t i = 0; i < 4; ++i)  // one more than it told of
    report.gpus.push_back({i, "GPU", false, {{"gpu_utilization_percent", 10.0 * i}, {"gpu_memory_used_bytes", 0.0}}});
  ASSERT_TRUE(recordNode(manager_, report, 5, 100 * kSecond).ok());
  SelectionRequest request;
  request.near = "n:0";
  request.count = 2;
  EXPECT_EQ(chosen(request, 101 * kSecond), (Ids{"n:2", "n:1"}));
  EXPECT_EQ(select(request, 101 * kSecond).devices[0].near_gbps, 90);
  EXPECT_NEAR(*select(request, 101 * kSecond).devices[0].age_s, 6, 1e-6);
  EXPECT_EQ(reason("n:1", request, 126 * kSecond), Reason::stale);
}

TEST(View, ChoosesFromWhatASamplerKeeps) {
  hardware::Latest latest;
  GPUClusteringManager manager(latest);
  ASSERT_TRUE(registerNode(manager, twoPairs(), {}).ok());
  std::vector<hardware::Sample> samples;
  for (int32_t i = 0; i < 4; ++i) {
    samples.push_back({kSecond, i, &metricInfo(hardware::Metric::gpu_memory_used_bytes), {}, 4e9 - i * 1e9});
    samples.push_back({kSecond, i, &metricInfo(hardware::Metric::gpu_utilization_percent), {}, 10});
  }
  samples.push_back({kSecond, 3, &metricInfo(hardware::Metric::gpu_up), {}, 0});
  latest.samples(samples, kSecond);
  const Result<Selection> selection = manager.select({}, 2 * kSecond);
  ASSERT_TRUE(selection.ok());
  ASSERT_EQ(selection->devices.size(), 1u);
  EXPECT_EQ(selection->devices[0].device_id, "n:2");
  EXPECT_EQ(selection->rejected.at(0).reason, Reason::problem) << "3 does not answer";
  EXPECT_EQ(manager.recordMetrics(metrics("n:0", 0, 0, 0)).code(), Code::kInvalid);
}

TEST_F(Selecting, TheAnswerNamesEveryDevice) {
  add("a", 8e9, 50, 65);
  add(device("b"));
  SelectionRequest request;
  request.count = 2;
  EXPECT_EQ(
      selectionJson(select(request), request),
      "{\"requested\":2,\"suitable\":1,\"devices\":[{\"device_id\":\"a\",\"score\":0.6,"
      "\"memory_free_bytes\":16000000000,\"utilization_percent\":50,\"temperature_celsius\":65,\"near_gbps\":null,"
      "\"age_s\":1,\"simulated\":false}],\"rejected\":[{\"device_id\":\"b\",\"reason\":\"it has no telemetry\"}]}");
  request.count = 0;
  EXPECT_EQ(manager_.select(request).status().message(), "count must be at least 1");
}

}  // namespace
}  // namespace tracesmith::schedule
