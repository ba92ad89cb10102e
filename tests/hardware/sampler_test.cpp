#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/clock.hpp"
#include "hardware/node/recorder.hpp"
#include "hardware/source.hpp"
#include "support/child.hpp"
#include "support/table.hpp"
#include "support/tree.hpp"

#include <gtest/gtest.h>

namespace tracesmith::hardware {
namespace {

using test::eventually;

/// Keeps everything.
class Kept : public SampleSink {
 public:
  void inventory(const Inventory& v) override {
    std::lock_guard lock(mutex_);
    inventory_ = v;
    ++inventories_;
  }
  void samples(std::span<const Sample> samples) override {
    std::lock_guard lock(mutex_);
    for (const Sample& s : samples)
      values_[{s.device, s.metric->name, std::string(s.part)}].push_back({s.ts_ns, s.value});
  }
  void gap(const Gap& gap) override {
    std::lock_guard lock(mutex_);
    gaps_.push_back(gap);
  }
  using Series = std::vector<std::pair<int64_t, double>>;
  Series series(int32_t device, const std::string& name, const std::string& part = "") {
    std::lock_guard lock(mutex_);
    auto i = values_.find({device, name, part});
    return i == values_.end() ? Series{} : i->second;
  }
  size_t count(int32_t device, const std::string& name, const std::string& part = "") {
    return series(device, name, part).size();
  }
  double last(int32_t device, const std::string& name, const std::string& part = "") {
    Series s = series(device, name, part);
    return s.empty() ? -1 : s.back().second;
  }
  std::vector<Gap> gaps() {
    std::lock_guard lock(mutex_);
    return gaps_;
  }
  bool gapEnded(const std::string& source, const std::string& cause) {
    for (const Gap& g : gaps())
      if (g.source == source && g.cause == cause && g.to_ns != 0) return true;
    return false;
  }
  bool gapBegan(const std::string& source, const std::string& cause) {
    for (const Gap& g : gaps())
      if (g.source == source && g.cause == cause) return true;
    return false;
  }

 private:
  std::mutex mutex_;  // guards all
  Inventory inventory_;
  int inventories_ = 0;
  std::map<std::tuple<int32_t, std::string, std::string>, Series> values_;
  std::vector<Gap> gaps_;
};

class Sampling : public testing::Test {
 protected:
  Sampling() {
    ::setenv("TRACESMITH_FAKE_NVML", description_.c_str(), 1);
    options_.places.root = dir_.path();
    options_.places.nvml = test::fakeNvml();
    options_.places.node = "n";
    options_.fast_ms = 20;
    options_.slow_ms = 40;
    options_.rare_ms = 60;
    options_.host = false;
    options_.look_again_ms = 100;
    options_.hang_ms = 1000;
    describe(test::readFile(test::nvmlDescription("a100-mesh")));
  }
  /// What the stand-in says from now on. Replaced as a whole, so that it is never read half.
  void describe(const std::string& text) {
    test::writeFile(description_ + ".new", text);
    std::filesystem::rename(description_ + ".new", description_);
  }
  static std::string twoGpus(const std::string& more) {
    return "gpus = 2\nname = NVIDIA Test\nutilization = 30\n" + more;
  }

  test::TempDir dir_;
  std::string description_ = dir_ / "gpus.txt";
  SamplerOptions options_;
  Kept kept_;
};

TEST_F(Sampling, GivesValuesInTheirUnits) {
  describe(test::readFile(test::nvmlDescription("h100-nvswitch")));
  Sampler sampler(options_, kept_);
  sampler.start();
  ASSERT_TRUE(eventually(
      [&] { return kept_.count(7, "gpu_sm_activity_percent") > 0 && kept_.count(7, "gpu_energy_joules") > 0; }));
  sampler.stop();
  EXPECT_DOUBLE_EQ(kept_.last(7, "gpu_power_watts"), 652);
  EXPECT_DOUBLE_EQ(kept_.last(7, "gpu_utilization_percent"), 97);
  EXPECT_DOUBLE_EQ(kept_.last(7, "gpu_memory_used_bytes"), 68719476736.0);
  EXPECT_DOUBLE_EQ(kept_.last(7, "gpu_energy_joules"), 123456.789);
  EXPECT_DOUBLE_EQ(kept_.last(7, "gpu_sm_activity_percent"), 88.25);
  EXPECT_DOUBLE_EQ(kept_.last(7, "gpu_dram_activity_percent"), 51.5);
  EXPECT_DOUBLE_EQ(kept_.last(7, "gpu_memory_temperature_celsius"), 70);
  EXPECT_DOUBLE_EQ(kept_.last(7, "gpu_process_memory_bytes", "4242"), 68e9);
  EXPECT_DOUBLE_EQ(kept_.last(7, "gpu_up"), 1);
  // NVLink counts KiB.
  EXPECT_GE(kept_.series(7, "gpu_nvlink_tx_bytes").front().second, 5000000.0 * 1024);
  for (const Gap& g : kept_.gaps()) EXPECT_EQ(g.cause, "late readings") << g.detail;  // of a busy machine
}

TEST_F(Sampling, CountersDoNotGoBackWhenTheyWrap) {
  describe(test::readFile(test::nvmlDescription("h100-nvswitch")));  // field 197 is 32 bits wide and about to wrap
  Sampler sampler(options_, kept_);
  sampler.start();
  ASSERT_TRUE(eventually([&] { return kept_.count(0, "gpu_pcie_tx_bytes") >= 5; }));
  sampler.stop();
  const Kept::Series s = kept_.series(0, "gpu_pcie_tx_bytes");
  for (size_t i = 1; i < s.size(); ++i) EXPECT_DOUBLE_EQ(s[i].second - s[i - 1].second, 5000) << i;
  EXPECT_GT(s.back().second, 4294967296.0);
}

TEST_F(Sampling, SaysOnceWhatIsNotSupported) {
  describe(test::readFile(test::nvmlDescription("pcie-only")));
  Sampler sampler(options_, kept_);
  sampler.start();
  ASSERT_TRUE(
      eventually([&] { return kept_.count(2, "gpu_power_watts") >= 10 && kept_.count(2, "gpu_energy_joules") > 0; }));
  sampler.stop();
  for (const char* name : {"gpu_energy_joules", "gpu_sm_activity_percent", "gpu_pcie_tx_bytes", "gpu_ecc_corrected"}) {
    ASSERT_EQ(kept_.count(2, name), 1u) << name;
    EXPECT_TRUE(std::isnan(kept_.last(2, name))) << name;
  }
}

TEST_F(Sampling, AGpuThatFallsOffTheBusIsAGapAndTheOthersGoOn) {
  describe(twoGpus(""));
  Sampler sampler(options_, kept_);
  sampler.start();
  ASSERT_TRUE(eventually([&] { return kept_.count(1, "gpu_power_watts") > 2; }));
  describe(twoGpus("[gpu 1]\nstate = lost\n"));
  ASSERT_TRUE(eventually([&] { return kept_.gapBegan("nvidia gpu 1", "GPU lost"); }));
  EXPECT_TRUE(eventually([&] { return kept_.last(1, "gpu_up") == 0; }));
  const size_t before = kept_.count(0, "gpu_power_watts"), lost = kept_.count(1, "gpu_power_watts");
  ASSERT_TRUE(eventually([&] { return kept_.count(0, "gpu_power_watts") > before + 5; }));
  EXPECT_EQ(kept_.count(1, "gpu_power_watts"), lost);
  describe(twoGpus(""));  // it was reset
  ASSERT_TRUE(eventually([&] { return kept_.gapEnded("nvidia gpu 1", "GPU lost"); }));
  ASSERT_TRUE(eventually([&] { return kept_.count(1, "gpu_power_watts") > lost + 2; }));
  EXPECT_DOUBLE_EQ(kept_.last(1, "gpu_up"), 1);
  sampler.stop();
  for (const Gap& g : kept_.gaps())
    if (g.to_ns != 0 && g.cause == "GPU lost") {
      EXPECT_GT(g.missed, 0u);
      EXPECT_GT(g.to_ns, g.from_ns);
    }
}

TEST_F(Sampling, ACallThatHangsStopsNobodyElse) {
  describe(twoGpus("[gpu 1]\nhang = power 3000\n"));
  Sampler sampler(options_, kept_);
  sampler.start();
  ASSERT_TRUE(eventually([&] { return kept_.gapBegan("nvidia gpu 1", "hangs"); }));
  const size_t before = kept_.count(0, "gpu_power_watts");
  EXPECT_TRUE(eventually([&] { return kept_.count(0, "gpu_power_watts") > before + 5; }));
  describe(twoGpus(""));
  EXPECT_TRUE(eventually([&] { return kept_.gapEnded("nvidia gpu 1", "hangs"); }));
  EXPECT_TRUE(eventually([&] { return kept_.count(1, "gpu_power_watts") > 2; }));
  sampler.stop();
}

TEST_F(Sampling, AGpuThatHangsFromTheBeginningIsToldAndTheOthersAreFound) {
  describe(twoGpus("[gpu 1]\nhang = handle 2500\n"));
  Sampler sampler(options_, kept_);
  sampler.start();
  EXPECT_TRUE(eventually([&] { return kept_.gapBegan("discovery", "hangs"); }));
  EXPECT_TRUE(eventually([&] { return kept_.gapEnded("discovery", "hangs"); }));
  EXPECT_TRUE(eventually([&] { return kept_.count(0, "gpu_power_watts") > 2; }));
  sampler.stop();
}

TEST_F(Sampling, StopDoesNotWaitForACallThatHangs) {
  describe(twoGpus("[gpu 1]\nhang = power 20000\n"));
  {
    Sampler sampler(options_, kept_);
    sampler.start();
    ASSERT_TRUE(eventually([&] { return kept_.gapBegan("nvidia gpu 1", "hangs"); }));
    const int64_t begin = rawClock();
    sampler.stop();
    EXPECT_LT(rawClock() - begin, 15'000'000'000);
  }
  EXPECT_TRUE(kept_.gapEnded("nvidia gpu 1", "hangs"));  // as far as it was seen
}

TEST_F(Sampling, ADriverThatIsReloadedComesBack) {
  describe(twoGpus(""));
  Sampler sampler(options_, kept_);
  sampler.start();
  ASSERT_TRUE(
      eventually([&] { return kept_.count(0, "gpu_power_watts") > 2 && kept_.count(1, "gpu_power_watts") > 2; }));
  describe("state = reloading\n" + twoGpus(""));
  ASSERT_TRUE(eventually([&] {
    return kept_.gapBegan("nvidia gpu 0", "driver reloaded") && kept_.gapBegan("nvidia gpu 1", "driver reloaded");
  }));
  describe(twoGpus("utilization = 77\n"));
  EXPECT_TRUE(eventually([&] {
    return kept_.last(0, "gpu_utilization_percent") == 77 && kept_.last(1, "gpu_utilization_percent") == 77;
  }));
  sampler.stop();
}

TEST_F(Sampling, FindsGpusThatComeLater) {
  describe("gpus = 0\n");
  Sampler sampler(options_, kept_);
  sampler.start();
  ASSERT_TRUE(sampler.waitForInventory(30000));
  describe(twoGpus(""));
  EXPECT_TRUE(eventually([&] { return kept_.count(1, "gpu_power_watts") > 0; }));
  sampler.stop();
}

TEST_F(Sampling, TellsXidErrorsAndWhatMayNotBeRead) {
  describe(twoGpus("forbidden = energy\n[gpu 1]\nxid = 79\n"));
  Sampler sampler(options_, kept_);
  sampler.start();
  EXPECT_TRUE(eventually([&] { return kept_.last(1, "gpu_xid") == 79; }));
  EXPECT_TRUE(eventually([&] { return kept_.count(0, "gpu_energy_joules") == 1; }));
  EXPECT_TRUE(std::isnan(kept_.last(0, "gpu_energy_joules")));
  sampler.stop();
}

TEST_F(Sampling, ReadsMoreFieldsByName) {
  describe(twoGpus("field 176 = 12 u32\n"));
  options_.nvml_fields = {"NVML_FI_DEV_PCIE_COUNT_BAD_TLP"};
  Sampler sampler(options_, kept_);
  sampler.start();
  EXPECT_TRUE(eventually([&] { return kept_.last(0, "nvml_pcie_count_bad_tlp") == 12; }));
  sampler.stop();
}

TEST_F(Sampling, AdaptiveModeKeepsAChangeAndLeavesOutSilence) {
  describe(twoGpus(""));
  options_.adaptive = true;
  options_.rare_ms = 600000;
  Sampler sampler(options_, kept_);
  sampler.start();
  ASSERT_TRUE(eventually([&] { return kept_.count(0, "gpu_utilization_percent") > 0; }));
  const int64_t begin = rawClock();
  ASSERT_TRUE(eventually([&] { return rawClock() - begin > 500'000'000; }));
  EXPECT_EQ(kept_.count(0, "gpu_utilization_percent"), 1u);
  describe(twoGpus("utilization = 90\n"));
  ASSERT_TRUE(eventually([&] { return kept_.last(0, "gpu_utilization_percent") == 90; }));
  sampler.stop();
  const Kept::Series s = kept_.series(0, "gpu_utilization_percent");
  ASSERT_EQ(s.size(), 3u);  // the first, the last before the change, the change
  EXPECT_DOUBLE_EQ(s[1].second, 30);
  EXPECT_GT(s[1].first, s[0].first);
}

TEST(Counting, WrapsAndResetsAreTakenIntoAccount) {
  Counter c32, c64;
  EXPECT_DOUBLE_EQ(c32.total(4294967290u, 32), 4294967290.0);
  EXPECT_DOUBLE_EQ(c32.total(4, 32), 4294967300.0);  // wrapped
  EXPECT_DOUBLE_EQ(c32.total(1, 32), 4294967301.0);  // begun again: 4 were counted, and 1 since
  EXPECT_DOUBLE_EQ(c64.total(1000), 1000);
  EXPECT_DOUBLE_EQ(c64.total(10), 1010);
}

TEST_F(Sampling, RecordsIntoATrace) {
  describe(test::readFile(test::nvmlDescription("a100-mesh")));
  const std::string trace = dir_ / "t.sbt";
  {
    Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(trace);
    ASSERT_TRUE(writer);
    TelemetryRecorder recorder(**writer, options_);
    recorder.start();
    ASSERT_TRUE(eventually([&] { return test::exists(trace) && (*writer)->bytesWritten() > 6000; }));
    describe(test::readFile(test::nvmlDescription("a100-mesh")) + "[gpu 2]\nstate = lost\n");
    const int64_t begin = rawClock();
    ASSERT_TRUE(eventually([&] { return rawClock() - begin > 300'000'000; }));
    ASSERT_TRUE(recorder.stop());
    ASSERT_TRUE((*writer)->close());
    EXPECT_GT(recorder.stats().samples, 0u);
  }
  EXPECT_EQ(test::rows(trace, "devices").size(), 4u);
  EXPECT_EQ(test::rows(trace, "devices")[0].s("name"), "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(test::rows(trace, "links").size(), 6u);
  EXPECT_EQ(test::rows(trace, "links")[0].s("kind"), "NVLink3");
  EXPECT_DOUBLE_EQ(test::rows(trace, "links")[0].d("gbps"), 100);
  EXPECT_TRUE(test::rows(trace, "links")[0].null("measured_gbps"));
  EXPECT_EQ(test::rows(trace, "nodes").size(), 1u);
  const auto power = test::rows(trace, "metrics", "name", "gpu_power_watts");
  ASSERT_FALSE(power.empty());
  EXPECT_EQ(power[0].s("unit"), "W");
  const auto gpm = test::rows(trace, "metrics", "name", "gpu_sm_activity_percent");  // no GPM before Hopper
  ASSERT_EQ(gpm.size(), 4u);
  EXPECT_TRUE(gpm[0].null("value"));
  EXPECT_GT(test::losses(trace)["telemetry: GPU lost"], 0);
  EXPECT_FALSE(test::rows(trace, "metadata", "key", "telemetry.cost").empty());
}

}  // namespace
}  // namespace tracesmith::hardware
