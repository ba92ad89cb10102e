// Frames of a session (NAME.json): what counters and samples become, and what `stat` reads of them.
#include "trace/export/frames.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "support/process.hpp"
#include "trace/export/frame_stats.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::trace {
namespace {

constexpr int64_t kMs = 1'000'000;

class FramesTest : public ::testing::Test {
 protected:
  FramesTest() : writer_(std::move(*Writer::create(dir_ / "t.sbt"))), out_(writer_->appender()) {
    SessionRow session;
    session.name = writer_->string("s");
    session.ts_start = 0;
    session.args = out_->text("{\"freq_ms\":500}");
    EXPECT_TRUE(out_->append(session));
  }
  void sample(int64_t ms, const char* name, double value, int64_t device = 0, const char* part = nullptr) {
    MetricRow m;
    m.ts = ms * kMs;
    m.node = writer_->string("n");
    m.device = device;
    m.name = writer_->string(name);
    m.value = std::bit_cast<int64_t>(value);
    if (part) m.part = writer_->string(part);
    EXPECT_TRUE(out_->append(m));
  }
  std::string frames() {
    EXPECT_TRUE(out_->flush());
    out_.reset();
    EXPECT_TRUE(writer_->close());
    EXPECT_TRUE(writeFrames(dir_ / "t.sbt", dir_ / "t.json"));
    return test::readFile(dir_ / "t.json");
  }
  /// The arrays of one key, frame by frame.
  static std::vector<std::string> values(const std::string& json, const std::string& key) {
    std::vector<std::string> all;
    const std::string begin = "\"" + key + "\":[";
    for (size_t at = json.find(begin); at != std::string::npos; at = json.find(begin, at + 1)) {
      const size_t from = at + begin.size();
      all.push_back(json.substr(from, json.find(']', from) - from));
    }
    return all;
  }

  test::TempDir dir_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Appender> out_;
};

TEST_F(FramesTest, ACounterReadOnceASecondHasARateInEveryFrame) {
  for (int i = 0; i < 8; ++i) sample(i * 500, "gpu_utilization_percent", 50);
  for (int i = 0; i < 4; ++i) {
    sample(i * 1000, "gpu_nvlink_rx_bytes", i * 2e9);
    sample(i * 1000, "gpu_nvlink_tx_bytes", i * 1e9);
  }
  const std::vector<std::string> rates = values(frames(), "gpu_bandwidth");
  ASSERT_EQ(rates.size(), 8u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(rates[i], "3") << i;
  EXPECT_EQ(rates[6], "null") << "after the last reading";
}

TEST_F(FramesTest, ACounterThatStartsAgainHasNoNegativeRate) {
  for (int i = 0; i < 4; ++i) {
    const double total = i < 2 ? 1e12 + i * 1e9 : i * 1e9;
    sample(i * 500, "gpu_pcie_rx_bytes", total);
    sample(i * 500, "gpu_pcie_tx_bytes", total);
  }
  const std::vector<std::string> rates = values(frames(), "dram_bandwidth");
  EXPECT_EQ(rates, (std::vector<std::string>{"4", "null", "4", "null"}));
}

TEST_F(FramesTest, LinksThatAreReadOneByOneAreAddedUp) {
  for (int i = 0; i < 2; ++i)
    for (const char* link : {"link 0", "link 1"}) {
      sample(i * 500, "gpu_nvlink_rx_bytes", i * 1e9, 0, link);
      sample(i * 500, "gpu_nvlink_tx_bytes", i * 5e8, 0, link);
    }
  EXPECT_EQ(values(frames(), "gpu_bandwidth"), (std::vector<std::string>{"6", "null"}));
}

TEST_F(FramesTest, SamplesThatFallIntoOneFrameAreAveraged) {
  sample(0, "gpu_utilization_percent", 10);
  sample(400, "gpu_utilization_percent", 30);
  sample(600, "gpu_utilization_percent", 80);
  const std::string json = frames();
  EXPECT_EQ(values(json, "gpu_util"), (std::vector<std::string>{"20", "80"}));
  EXPECT_NE(json.find("\"avg_gpu_util\":40"), std::string::npos) << json;
}

TEST_F(FramesTest, StatKnowsAGpuThatJoinsLater) {
  test::writeFile(dir_ / "f.json", R"({"session_name":"s","frames":[
    {"time":"2026-01-01T00:00:00.0Z","gpu_id":["a:0:X"],"gpu_util":[10],"gpu_memory":[1]},
    {"time":"2026-01-01T00:00:01.0Z","gpu_id":["b:0:X","a:0:X"],"gpu_util":[70,30],"gpu_memory":[2,1],
     "dram_bandwidth":[null,12.5]}]})");
  const Result<FrameData> data = readFrames(dir_ / "f.json");
  ASSERT_TRUE(data) << data.status().message();
  ASSERT_EQ(data->gpus.size(), 2u);
  EXPECT_EQ(data->gpus[0].util.average, 20);
  EXPECT_EQ(data->gpus[1].id, "b:0:X");
  EXPECT_EQ(data->gpus[1].util.measured, 1u);
  EXPECT_EQ(data->gpus[1].util.average, 70);
  EXPECT_EQ(data->gpus[1].util.values.size(), data->seconds.size());
  EXPECT_EQ(data->gpus[0].pcie.average, 12.5);
  EXPECT_EQ(data->gpus[1].pcie.measured, 0u);
  EXPECT_EQ(data->gpus[1].gpu_to_gpu.values.size(), data->seconds.size());
}

}  // namespace
}  // namespace tracesmith::trace
