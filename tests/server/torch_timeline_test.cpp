// A trace of PyTorch in the timeline: what lies in what, on which rows, and what a search finds.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <fstream>
#include <map>

#include "server/timeline/timeline.hpp"
#include "support/process.hpp"

namespace tracesmith::server {
namespace {

class TorchTimeline : public ::testing::Test {
 protected:
  /// Steps of 10 ms; in each a Python frame around everything, operators in operators, a launch, and a kernel under an
  /// annotation of the GPU.
  void SetUp() override {
    std::string events;
    auto x = [&](const char* cat, const std::string& name, const std::string& pid, const std::string& tid, double ts,
                 double dur, const std::string& args) {
      events += (events.empty() ? "" : ",") + std::string("{\"ph\":\"X\",\"cat\":\"") + cat + "\",\"name\":\"" + name +
                "\",\"pid\":" + pid + ",\"tid\":" + tid + ",\"ts\":" + std::to_string(ts) +
                ",\"dur\":" + std::to_string(dur) + ",\"args\":{" + args + "}}";
    };
    x("Trace", "PyTorch Profiler (0)", "\"Spans\"", "\"PyTorch Profiler\"", 0, kSteps * 10'000, "");
    for (int step = 0; step < kSteps; ++step) {
      const double at = step * 10'000;
      const std::string id = std::to_string(step + 1);
      x("user_annotation", "ProfilerStep#" + id, "77", "77", at, 9'900, "");
      x("python_function", "train.py(12): train", "77", "77", at + 1, 9'800, "");
      x("python_function", "model.py(7): forward", "77", "77", at + 2, 9'000, "");
      x("cpu_op", "aten::linear", "77", "77", at + 100, 500, "");
      x("cpu_op", "aten::addmm", "77", "77", at + 110, 400, "");
      x("cuda_runtime", "cudaLaunchKernel", "77", "77", at + 120, 10, "\"correlation\":" + id);
      x("gpu_user_annotation", "ProfilerStep#" + id, "0", "7", at + 1'000, 8'000, "\"device\":0,\"stream\":7");
      x("kernel", "gemm", "0", "7", at + 1'000, 100 + step, "\"device\":0,\"stream\":7,\"correlation\":" + id);
    }
    std::ofstream(dir_ / "torch.json") << "{\"schemaVersion\":1,\"traceEvents\":[" << events << "]}";
    const auto imported = test::tracesmith({"import", dir_ / "torch.json", "-o", dir_ / "torch.sbt"});
    ASSERT_EQ(imported.rc, 0) << imported.err;
    Result<std::unique_ptr<Timeline>> t = Timeline::open(dir_ / "torch.sbt", "");
    ASSERT_TRUE(t.ok()) << t.status().message();
    timeline_ = std::move(*t);
    ASSERT_TRUE(timeline_->waitUntilReady().ok());
  }
  simdjson::dom::element parse(const std::string& text) {
    simdjson::dom::element e;
    EXPECT_EQ(parser_.parse(text).get(e), simdjson::SUCCESS) << text.substr(0, 300);
    return e;
  }
  simdjson::dom::element search(const SearchQuery& q) { return parse(answer_ = timeline_->search(q)); }
  static std::vector<int64_t> times(simdjson::dom::element answer) {
    std::vector<int64_t> out;
    for (simdjson::dom::element h : answer["hits"]) out.push_back(h["ts_rel"].get_int64());
    return out;
  }

  static constexpr int kSteps = 50;
  test::TempDir dir_;
  std::unique_ptr<Timeline> timeline_;
  simdjson::dom::parser parser_;
  std::string answer_;
};

TEST_F(TorchTimeline, KernelsOperatorsAndFramesHaveRowsOfTheirOwn) {
  std::map<TrackKind, std::pair<uint64_t, uint32_t>> seen;  // events, depth
  for (const TrackIndex& t : timeline_->index().tracks)
    if (t.key.minor == 77 || t.key.minor == 7) seen[t.key.kind] = {t.events, t.depth};
  EXPECT_EQ(seen[TrackKind::gpu_ranges], std::pair(uint64_t{kSteps}, 1u));
  EXPECT_EQ(seen[TrackKind::stream], std::pair(uint64_t{kSteps}, 1u));
  EXPECT_EQ(seen[TrackKind::thread], std::pair(uint64_t{4 * kSteps}, 4u));
  EXPECT_EQ(seen[TrackKind::python], std::pair(uint64_t{2 * kSteps}, 2u));
  // One process is one group, with what belongs to none.
  const std::string text = timeline_->describe("file", "torch");
  for (simdjson::dom::element t : parse(text)["tracks"]) EXPECT_EQ(t["group"].get_string().value(), "pid 77");
}

TEST_F(TorchTimeline, StacksKeepTheirLevelsFromAfarAndNear) {
  TileQuery q{0, timeline_->index().duration + 1, 8, {}};
  for (uint32_t i = 0; i < timeline_->index().tracks.size(); ++i)
    if (timeline_->index().tracks[i].key.kind == TrackKind::thread && timeline_->index().tracks[i].key.minor == 77)
      q.tracks.push_back(i);
  ASSERT_EQ(q.tracks.size(), 1u);
  const std::string far = timeline_->tiles(q);
  std::map<uint64_t, uint64_t> rows;
  for (simdjson::dom::element b : parse(far)["tracks"].at(0)["buckets"])
    rows[b.at(5).get_uint64()] += b.at(2).get_uint64().value();
  EXPECT_EQ(rows, (std::map<uint64_t, uint64_t>{{0, kSteps}, {1, kSteps}, {2, kSteps}, {3, kSteps}}));
  q.width = 4096;
  const std::string near = timeline_->tiles(q);
  simdjson::dom::element parsed = parse(near);
  std::map<std::string, uint64_t> depth;
  std::vector<std::string> names;
  for (simdjson::dom::element n : parsed["names"]) names.emplace_back(n.get_string().value());
  for (simdjson::dom::element s : parsed["tracks"].at(0)["slices"])
    depth[names[s.at(2).get_uint64()].substr(0, 8)] = s.at(5).get_uint64();
  EXPECT_EQ(depth,
            (std::map<std::string, uint64_t>{{"Profiler", 0}, {"aten::li", 1}, {"aten::ad", 2}, {"cudaLaun", 3}}));
}

TEST_F(TorchTimeline, AnEventAndItsLaunchSayHowDeepTheyLie) {
  const std::string row(search({.text = "gemm", .limit = 1})["hits"].at(0)["row_id"].get_string().value());
  Result<std::string> event = timeline_->event(row);
  ASSERT_TRUE(event.ok());
  const std::string kept = *event;
  simdjson::dom::element e = parse(kept);
  EXPECT_EQ(e["depth"].get_uint64().value(), 0u);
  EXPECT_EQ(e["flow"].at(0)["name"].get_string().value(), "cudaLaunchKernel");
  EXPECT_EQ(e["flow"].at(0)["depth"].get_int64().value(), 3);
}

TEST_F(TorchTimeline, HitsComeByTimeAndAllOfThemCanBeReached) {
  simdjson::dom::element first = search({.text = "GEMM", .limit = 20});
  EXPECT_EQ(first["total"].get_uint64().value(), uint64_t{kSteps});
  EXPECT_EQ(first["before"].get_uint64().value(), 0u);
  EXPECT_TRUE(first["truncated"].get_bool().value());
  const std::vector<int64_t> begin = times(first);
  ASSERT_EQ(begin.size(), 20u);
  EXPECT_TRUE(std::is_sorted(begin.begin(), begin.end()));
  const int64_t after = begin.back() + 1;
  simdjson::dom::element next = search({.text = "gemm", .limit = 20, .from = after});
  EXPECT_EQ(next["before"].get_uint64().value(), 20u);
  EXPECT_GE(times(next).front(), after);
  simdjson::dom::element back = search({.text = "gemm", .limit = 5, .to = after});
  EXPECT_EQ(times(back), std::vector<int64_t>(begin.end() - 5, begin.end()));
  EXPECT_EQ(back["before"].get_uint64().value(), 15u);
  EXPECT_TRUE(times(search({.text = "gemm", .from = timeline_->index().duration + 1})).empty());
}

TEST_F(TorchTimeline, AFlameGraphHasWhatLiesInWhatAndTheTimeOfEachAlone) {
  TileQuery q{0, timeline_->index().duration + 1, 1, {}};
  for (uint32_t i = 0; i < timeline_->index().tracks.size(); ++i) q.tracks.push_back(i);
  const Result<std::string> text = timeline_->flame(q);
  ASSERT_TRUE(text.ok()) << text.status().message();
  std::map<std::string, std::pair<int64_t, int64_t>> found;  // path: total, alone
  std::vector<std::string> paths;
  for (simdjson::dom::element n : parse(*text)["nodes"]) {
    const std::string name(n["name"].get_string().value());
    const bool top = n["parent"].is_null();
    paths.push_back((top ? "" : paths[n["parent"].get_uint64()] + ">") + name);
    found[paths.back()].first += n["total_ns"].get_int64().value();
    found[paths.back()].second += n["self_ns"].get_int64().value();
  }
  const int64_t kernels = (100 * kSteps + kSteps * (kSteps - 1) / 2) * 1000;
  using Times = std::pair<int64_t, int64_t>;
  EXPECT_EQ(found["GPU"].first, kernels) << "a kernel in a range is counted once, and idle time is no work";
  EXPECT_EQ(found["GPU>steps"], Times(kernels, 0));
  EXPECT_EQ(found["GPU>steps>gemm"], Times(kernels, kernels));
  const std::string linear = "threads>steps>train.py(12): train>model.py(7): forward>aten::linear";
  EXPECT_EQ(found[linear], Times(500'000 * kSteps, 100'000 * kSteps));
  EXPECT_EQ(found[linear + ">aten::addmm>cudaLaunchKernel"].first, 10'000 * kSteps);
  // Of a part only what lies in it.
  q.to = 1'000'000;
  const Result<std::string> part = timeline_->flame(q);
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->find("gemm"), std::string::npos);
}

TEST_F(TorchTimeline, ASearchCanBeNarrowed) {
  // Steps are ranges of the host, of the GPU, and rows of the table `steps`.
  EXPECT_EQ(search({.text = "ProfilerStep"})["total"].get_uint64().value(), uint64_t{3 * kSteps});
  const auto gpu = static_cast<uint8_t>(trace::EventType::gpu_annotation);
  EXPECT_EQ(search({.text = "ProfilerStep", .type = gpu})["total"].get_uint64().value(), uint64_t{kSteps});
  EXPECT_EQ(search({.text = "gemm", .least_ns = 140'000})["total"].get_uint64().value(), 10u);
  EXPECT_EQ(search({.text = "gemm", .least_ns = 1'000'000})["total"].get_uint64().value(), 0u);
  std::vector<uint32_t> streams;
  for (uint32_t i = 0; i < timeline_->index().tracks.size(); ++i)
    if (timeline_->index().tracks[i].key.kind == TrackKind::thread) streams.push_back(i);
  EXPECT_EQ(search({.text = "gemm", .tracks = streams})["total"].get_uint64().value(), 0u);
}

}  // namespace
}  // namespace tracesmith::server
