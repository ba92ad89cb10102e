// The probe with CUPTI, under `tracesmith run`: every record is in the trace, what is missing is counted, and the
// program does not notice.
#include "capture/probe_fixture.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith {
namespace {

TEST_F(ProbeTest, EveryRecordIsInTheTrace) {
  const Output o = run({"kernels 100", "copies 20", "sets 10", "peers 5", "graphs 4", "syncs 10", "calls 5", "exit 0"});
  EXPECT_EQ(o.rc, 0) << o.err;
  expectAllRecorded();
  EXPECT_EQ(made().size(), 100u * 3 + 20 * 2 + 10 + 5 + 4 * 2 + 6)
      << "the calls launch nothing, 6 of 10 make the host wait";
  EXPECT_TRUE(losses(trace()).empty());
  EXPECT_TRUE(has(o.err, "100 kernels")) << o.err;
  EXPECT_TRUE(has(o.err, "none lost")) << o.err;
  for (const Row& k : kernels()) {
    EXPECT_EQ(k.s("launch"), std::to_string(1 + k.i("correlation") % 5) + ",1,1,32,1,1,32,1024,2048");
    EXPECT_EQ(k.i("context"), 1);
  }
  for (const Row& c : rows(trace(), "events", "name", "Memcpy PtoP (Device -> Device)"))
    EXPECT_EQ(c.s("args"), "{\"src_device\":1,\"dst_device\":2}");
  const std::vector<Row> processes = rows(trace(), "processes");
  ASSERT_EQ(processes.size(), 1u);
  EXPECT_EQ(processes[0].s("name"), "fake_cuda");
  EXPECT_TRUE(has(processes[0].s("command"), "kernels 100 copies 20"));
  EXPECT_EQ(rows(trace(), "clocks").size(), 1u);
}

TEST_F(ProbeTest, EveryThreadsBuffersAreRead) {
  for (const char* version : {"130001", "24"}) {  // a buffer for each thread, one for all
    std::filesystem::remove(dir_ / "log");
    const Output o = run({"threads 8 300"}, {}, {{"FAKE_CUPTI_VERSION", version}, {"FAKE_CUPTI_BUFFER", "40"}});
    EXPECT_EQ(o.rc, 0) << o.err;
    EXPECT_EQ(kernels().size(), 8u * 300);
    expectAllRecorded();
    EXPECT_TRUE(losses(trace()).empty());
  }
}

class CuptiVersion : public ProbeTest, public ::testing::WithParamInterface<int> {};

// What cuptiGetVersion says from CUDA 11.6 to 13: kernel records of 176 to 216 bytes.
INSTANTIATE_TEST_SUITE_P(Since11_6, CuptiVersion, ::testing::Values(17, 18, 19, 22, 23, 26, 28, 130001));

TEST_P(CuptiVersion, RecordsAreReadAsLongAsTheyAre) {
  const Output o = run({"kernels 10", "graphs 2", "copies 3", "sets 2", "peers 2", "syncs 5"}, {"--graph-nodes"},
                       {{"FAKE_CUPTI_VERSION", std::to_string(GetParam())}});
  EXPECT_EQ(o.rc, 0) << o.err;
  expectAllRecorded();
  EXPECT_EQ(rows(trace(), "events", "name", "node").size(), 6u);
  EXPECT_TRUE(losses(trace()).empty());
}

class OldCupti : public ProbeTest, public ::testing::WithParamInterface<int> {};

// CUDA 10 to 11.5: kernel records of 144 to 168 bytes, the system's clock, no choice of calls.
INSTANTIATE_TEST_SUITE_P(Until11_5, OldCupti, ::testing::Values(12, 13, 14, 15, 16));

TEST_P(OldCupti, RecordsAreReadInOurClock) {
  const Output o = run({"kernels 10", "graphs 2", "copies 3", "sets 2", "peers 2", "syncs 5"}, {"--graph-nodes"},
                       {{"FAKE_CUPTI_VERSION", std::to_string(GetParam())},
                        {"TRACESMITH_CUPTI", kBuild + "/lib/tests/old/libcupti.so.11.2"}});
  EXPECT_EQ(o.rc, 0) << o.err;
  std::vector<std::string> expected, got = recorded(false);
  for (const std::string& l : made()) {
    std::vector<std::string> field;
    std::istringstream in(l);
    for (std::string f; std::getline(in, f, '|');) field.push_back(f);
    ASSERT_EQ(field.size(), 11u);
    if (GetParam() < 14) field[8] = "0";  // graph
    if (GetParam() < 13) field[9] = "0";  // its node
    std::string line = field[0] + "|" + field[1] + "|" + std::to_string(std::stoll(field[3]) - std::stoll(field[2]));
    for (size_t i = 4; i < field.size(); ++i) line += "|" + field[i];
    expected.push_back(line);
  }
  std::sort(expected.begin(), expected.end());
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, expected);
  EXPECT_TRUE(losses(trace()).empty());
  const int64_t start = rows(trace(), "processes").at(0).i("ts_start");
  for (const Row& k : kernels()) {
    EXPECT_GE(k.i("ts"), start - 1'000'000'000);
    EXPECT_LE(k.i("ts"), start + 60'000'000'000);
  }
}

TEST_F(ProbeTest, LossesAreCountedByCause) {
  const Output o = run({"kernels 5", "bad", "unknown 3", "drop 6", "hold", "kernels 2"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(kernels().size(), 7u);
  expectAllRecorded();
  // Of the kernel that did not end CUPTI gives a record without an end when it must give all.
  EXPECT_EQ(losses(trace()),
            (std::map<std::string, int64_t>{{"bad timestamp", 5}, {"unknown record", 3}, {"dropped by CUPTI", 6}}));
  EXPECT_TRUE(has(o.err, "14 lost")) << o.err;
}

TEST_F(ProbeTest, WithoutABufferLeftTheLossIsCountedAndTheProgramGoesOn) {
  const Output o =
      run({"threads 6 50", "print done"}, {}, {{"TRACESMITH_CUPTI_MB", "2"}, {"TRACESMITH_CUPTI_BUFFER_KB", "900"}});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "done\n");
  EXPECT_GT(madeLost(), 0u);
  expectAllRecorded();
  EXPECT_EQ(losses(trace())["dropped by CUPTI"], static_cast<int64_t>(madeLost()));
}

TEST_F(ProbeTest, AnOldCuptiWithoutABufferLeftIsNotGivenNull) {
  const Output o = run({"hold", "threads 6 500", "print done"}, {},
                       {{"TRACESMITH_CUPTI_MB", "1"},
                        {"TRACESMITH_CUPTI_BUFFER_KB", "900"},
                        {"FAKE_CUPTI_VERSION", "26"},
                        {"FAKE_CUPTI_BUFFER", "100"}});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "done\n");
  EXPECT_EQ(madeLost(), 0u) << "CUPTI got no buffer";
  EXPECT_LE(recorded().size(), made().size());
}

TEST_F(ProbeTest, ModesSayWhatIsRecorded) {
  const Commands commands = {"kernels 4", "copies 2", "syncs 5", "calls 5", "overheads 2", "graphs 1"};
  auto count = [&](const char* type) { return rows(trace(), "events", "type", type).size(); };
  EXPECT_EQ(run(commands, {"--mode", "light"}).rc, 0);
  EXPECT_EQ(count("kernel"), 4u);
  EXPECT_EQ(count("memcpy"), 2u);
  EXPECT_EQ(count("graph"), 1u);
  for (const char* none : {"runtime", "driver", "sync", "overhead"}) EXPECT_EQ(count(none), 0u) << none;
  EXPECT_EQ(run(commands, {"--mode", "default"}).rc, 0);
  EXPECT_EQ(count("kernel"), 4u);
  EXPECT_EQ(count("runtime"), 4u + 2 + 1) << "those that launch";
  EXPECT_EQ(count("driver"), 4u);
  EXPECT_EQ(count("sync"), 3u) << "in which the host waits: for an event, a stream, the device";
  for (const Row& s : rows(trace(), "events", "type", "sync")) {
    EXPECT_TRUE(s.null("stream")) << "the call does not tell";
    EXPECT_FALSE(s.null("tid"));
  }
  EXPECT_EQ(count("overhead"), 0u);
  EXPECT_EQ(run(commands, {"--mode", "full"}).rc, 0);
  EXPECT_EQ(count("kernel"), 4u);
  EXPECT_EQ(count("runtime"), 4u + 2 + 1 + 5 + 4);
  EXPECT_EQ(count("driver"), 4u + 5);
  EXPECT_EQ(count("sync"), 5u);
  EXPECT_EQ(count("overhead"), 2u);
}

TEST_F(ProbeTest, OnlyFullModePaysForRecordsOfSynchronisation) {
  EXPECT_EQ(run({"kinds"}, {"--mode", "light"}).out, "1 2 10 22 51\n");
  EXPECT_EQ(run({"kinds"}).out, "1 2 10 22 51\n") << "calls are chosen one by one";
  EXPECT_EQ(run({"kinds"}, {}, {{"FAKE_CUPTI_VERSION", "22"}}).out, "1 2 5 10 22 51\n") << "they cannot be";
  EXPECT_EQ(run({"kinds"}, {"--mode", "full"}).out, "1 2 4 5 10 17 22 38 51\n");
}

TEST_F(ProbeTest, AnOldCuptiThatCannotChooseCallsGivesAllRuntimeCalls) {
  EXPECT_EQ(run({"kernels 4", "calls 5"}, {}, {{"FAKE_CUPTI_VERSION", "22"}}).rc, 0);
  EXPECT_EQ(rows(trace(), "events", "type", "runtime").size(), 4u + 5);
  EXPECT_EQ(kernels().size(), 4u);
}

TEST_F(ProbeTest, GraphsAreOneRowEachUnlessNodesAreAskedFor) {
  EXPECT_EQ(run({"graphs 3"}).rc, 0);
  EXPECT_EQ(rows(trace(), "events", "type", "graph").size(), 3u);
  EXPECT_EQ(kernels().size(), 0u);
  EXPECT_EQ(run({"graphs 3"}, {"--graph-nodes"}).rc, 0);
  EXPECT_EQ(rows(trace(), "events", "type", "graph").size(), 0u);
  ASSERT_EQ(kernels().size(), 9u);
  for (const Row& k : kernels()) EXPECT_EQ(k.i("graph_node") >> 32, k.i("graph"));
}

TEST_F(ProbeTest, WithoutCuptiTheProgramRunsAndALineSaysSo) {
  const Output o = run({"print fine", "kernels 3", "exit 5"}, {}, {{"TRACESMITH_CUPTI", dir_ / "none.so"}});
  EXPECT_EQ(o.rc, 5);
  EXPECT_EQ(o.out, "fine\n");
  EXPECT_TRUE(has(o.err, "libcupti was not found")) << o.err;
  EXPECT_TRUE(has(o.err, "no GPU records")) << o.err;
  EXPECT_EQ(rows(trace(), "processes").size(), 1u);
  EXPECT_EQ(rows(trace(), "events").size(), 0u);
}

TEST_F(ProbeTest, RefusedByCuptiTheProgramRunsAndALineSaysSo) {
  const Output o = run({"print fine", "kernels 3", "exit 5"}, {}, {{"FAKE_CUPTI_REFUSE", "1"}});
  EXPECT_EQ(o.rc, 5);
  EXPECT_EQ(o.out, "fine\n");
  EXPECT_TRUE(has(o.err, "CUPTI refused")) << o.err;
  EXPECT_EQ(rows(trace(), "events").size(), 0u);
}

TEST_F(ProbeTest, AProgramWithoutCudaRunsAndALineSaysSo) {
  const Output o = run({"later", "print fine", "exit 6"});
  EXPECT_EQ(o.rc, 6);
  EXPECT_EQ(o.out, "fine\n");
  EXPECT_TRUE(has(o.err, "the trace has no events")) << o.err;
}

}  // namespace
}  // namespace tracesmith
