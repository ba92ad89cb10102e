// What Kineto says beside the events: ranks, groups, devices, processes; steps; collectives.
#include <gtest/gtest.h>

#include "support/imported.hpp"
#include "trace/import/step_index.hpp"

namespace tracesmith::trace {
namespace {

using test::asArray;
using test::asObject;
using test::at;
using test::Imported;
using test::only;

constexpr const char* kEvent = R"({"ph":"X","cat":"cpu_op","name":"op","pid":10,"tid":11,"ts":1,"dur":2})";

TEST(ImportKineto, RankIsInEveryRowWhereverItIsSaid) {
  const char* info = R"({"backend":"nccl","rank":3,"world_size":8})";
  std::string quoted = R"("{\"backend\":\"nccl\",\"rank\":3,\"world_size\":8}")";
  std::string events = std::string(kEvent) +
                       R"(,{"ph":"C","name":"c","ts":1,"args":{"v":1}},{"ph":"s","id":1,"cat":"x","name":"x","ts":1},
      {"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv","pid":0,"tid":7,"ts":1,"dur":2},{"ph":"M","name":"thread_name","pid":10,"tid":11,"args":{"name":"main"}},
      {"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","pid":10,"tid":11,"ts":0,"dur":50},{"ph":"E","ts":1})";
  for (const std::string& value : {std::string(info), quoted})
    for (const std::string& text : {asObject(events, "\"distributedInfo\": " + value),
                                    "{\"distributedInfo\": " + value + ", \"traceEvents\": [" + events + "]}"}) {
      Imported t(text);
      ASSERT_TRUE(t.report) << t.error();
      EXPECT_EQ(t.report->ranks, std::set<int64_t>{3});
      for (const char* table :
           {"events", "counters", "flows", "collectives", "threads", "steps", "processes", "losses", "metadata"}) {
        auto rows = t.rows(table);
        EXPECT_FALSE(rows.empty()) << table;
        for (const auto& row : rows) EXPECT_EQ(at(row, "rank"), "3") << table;
      }
      EXPECT_EQ(at(only(t.rows("processes"), "pid", "10"), "world_size"), "8");
      EXPECT_EQ(at(only(t.rows("metadata"), "key", "distributedInfo"), "value"), info);
    }
}

TEST(ImportKineto, RankAndNodeOfTheCommandLineWin) {
  ImportOptions options;
  options.rank = 9;
  options.node = "n1";
  Imported t(asObject(kEvent, R"("distributedInfo":{"rank":3},"hostname":"h7")"), options);
  auto row = t.rows("events").at(0);
  EXPECT_EQ(at(row, "rank"), "9");
  EXPECT_EQ(at(row, "node"), "n1");
  EXPECT_EQ(at(t.rows("nodes").at(0), "node"), "n1");
}

TEST(ImportKineto, NodeFromAHostNameElseNull) {
  EXPECT_EQ(at(Imported(asObject(kEvent, R"("hostname":"h7")")).rows("events").at(0), "node"), "h7");
  EXPECT_EQ(at(Imported(asObject(kEvent, R"("distributedInfo":{"host_name":"h8"})")).rows("events").at(0), "node"),
            "h8");
  Imported none(asArray(kEvent));
  EXPECT_EQ(at(none.rows("events").at(0), "node"), "NULL");
  EXPECT_EQ(at(none.rows("events").at(0), "rank"), "NULL");
  EXPECT_TRUE(none.rows("nodes").empty());
}

TEST(ImportKineto, OddRanksAreNoRanks) {
  for (const char* info : {R"({"rank":-1})", R"({"rank":null})", R"({"rank":99999999999})", R"({"backend":"nccl"})",
                           "[]", "\"{broken\"", "7"}) {
    Imported t(asObject(kEvent, std::string("\"distributedInfo\":") + info));
    ASSERT_TRUE(t.report) << t.error();
    EXPECT_EQ(at(t.rows("events").at(0), "rank"), "NULL") << info;
  }
  EXPECT_EQ(at(Imported(asObject(kEvent, R"("distributedInfo":{"rank":"12"})")).rows("events").at(0), "rank"), "12");
}

TEST(ImportKineto, GroupsFromPgConfig) {
  Imported t(asObject(
      kEvent,
      R"("distributedInfo":{"rank":1,"pg_config":[{"pg_name":"0","pg_desc":"default_pg","backend_config":"cuda:nccl","pg_size":2,"ranks":[0, 1]}]})"));
  EXPECT_EQ(t.rows("groups").at(0), (test::Row{{"rank", "1"},
                                               {"comm", "0"},
                                               {"description", "default_pg"},
                                               {"backend", "cuda:nccl"},
                                               {"size", "2"},
                                               {"ranks", "[0,1]"}}));
}

TEST(ImportKineto, DevicesAsListOrAsText) {
  const char* list =
      R"([{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85018279936, "computeMajor": 9, "computeMinor": 0, "warpSize": 32, "numSms": 132, "maxThreadsPerBlock": 1024}])";
  std::string quoted =
      R"("[{\"id\": 0, \"name\": \"NVIDIA H100\", \"totalGlobalMem\": 85018279936, \"computeMajor\": 9, \"computeMinor\": 0, \"warpSize\": 32, \"numSms\": 132, \"maxThreadsPerBlock\": 1024}]")";
  for (const std::string& value : {std::string(list), quoted}) {
    Imported t(asObject(kEvent, "\"deviceProperties\": " + value));
    ASSERT_EQ(t.rows("devices").size(), 1u);
    EXPECT_EQ(t.rows("devices")[0], (test::Row{{"device", "0"},
                                               {"name", "NVIDIA H100"},
                                               {"vendor", "NVIDIA"},
                                               {"memory", "85018279936"},
                                               {"cc_major", "9"},
                                               {"cc_minor", "0"},
                                               {"sms", "132"},
                                               {"warp", "32"},
                                               {"args", R"({"maxThreadsPerBlock":1024})"}}));
  }
  Imported odd(asObject(kEvent, R"("deviceProperties":"none")"));
  EXPECT_EQ(odd.lost("unreadable metadata"), 1u);
  EXPECT_EQ(at(only(odd.rows("metadata"), "key", "deviceProperties"), "value"), "none");
}

TEST(ImportKineto, TimesHaveTheirDateWhereverTheFileTellsIt) {
  const std::string base = R"("baseTimeNanoseconds":1711964646000000000)",
                    events = R"("traceEvents":[)" + std::string(kEvent) + "]";
  for (const std::string& text : {"{" + base + "," + events + "}", "{" + events + "," + base + "}"}) {
    Imported t(text);
    EXPECT_EQ(at(t.rows("events").at(0), "ts"), "1711964646000001000");
    EXPECT_EQ(t.rows("metadata").size(), 1u) << "what the file's own times count from";
  }
  // What is no time is kept as it is.
  for (const char* odd : {"-5", "\"x\"", "9000000000000000000", "1e400"}) {
    Imported t(asObject(kEvent, R"("baseTimeNanoseconds":)" + std::string(odd)));
    EXPECT_EQ(at(t.rows("events").at(0), "ts"), "1000") << odd;
    EXPECT_EQ(t.rows("metadata").size(), 1u) << odd;
  }
  Imported large(
      asObject(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":9000000000000000,"dur":1})", base));
  EXPECT_TRUE(large.error().ends_with("in.json: its times are too large for its baseTimeNanoseconds")) << large.error();
}

TEST(ImportKineto, AStepOfSeveralRanksIsOneStep) {
  test::TempDir dir;
  for (const char* rank : {"0", "1"})
    test::writeFile(
        dir / ("rank" + std::string(rank) + ".json"),
        asArray(R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","pid":1,"tid":1,"ts":1,"dur":5},
                               {"ph":"X","cat":"user_annotation","name":"ProfilerStep#5","pid":1,"tid":1,"ts":7,"dur":5})"));
  const test::Output o = test::tracesmith({"import", dir / "rank0.json", dir / "rank1.json", "-o", dir / "t.sbt"});
  EXPECT_NE(o.out.find("2 files, 2 ranks (0 to 1): 4 events, 0 collectives, 2 steps"), std::string::npos) << o.out;
}

TEST(ImportKineto, FilesOfDifferentJobsAreWarnedOf) {
  auto file = [](int rank, int world, int64_t ts) {
    return R"({"distributedInfo":{"rank":)" + std::to_string(rank) + R"(,"world_size":)" + std::to_string(world) +
           R"(},"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)" + std::to_string(ts) +
           R"(,"dur":10}]})";
  };
  test::TempDir dir;
  auto imported = [&](const std::string& a, const std::string& b) {
    test::writeFile(dir / "a.json", a);
    test::writeFile(dir / "b.json", b);
    return test::tracesmith({"import", "--force", dir / "a.json", dir / "b.json", "-o", dir / "t.sbt"}).err;
  };
  EXPECT_EQ(imported(file(0, 2, 100), file(1, 2, 105)), "");
  EXPECT_NE(imported(file(0, 2, 100), file(1, 8, 105))
                .find("look like different jobs: one is of a job of 2 ranks, the other of 8"),
            std::string::npos);
  EXPECT_NE(imported(file(0, 2, 100), file(1, 2, 1000110))
                .find("look like different jobs: one begins 1.000 s after the other has ended"),
            std::string::npos);
}

TEST(ImportKineto, EverythingElseIsMetadata) {
  Imported t(asObject(kEvent, R"("traceName":"/tmp/\"x\".json","INFO":["a",
      {"b":1}],"with_stack":1)"));
  auto rows = t.rows("metadata");
  EXPECT_EQ(at(only(rows, "key", "traceName"), "value"), "/tmp/\"x\".json");
  EXPECT_EQ(at(only(rows, "key", "INFO"), "value"), R"(["a",{"b":1}])");
}

TEST(ImportKineto, ProcessAndThreadMetadata) {
  Imported t(asArray(R"({"ph":"M","name":"process_name","pid":10,"tid":0,"ts":1.5,"args":{"name":"python3"}},
      {"ph":"M","name":"process_labels","pid":10,"tid":0,"args":{"labels":"CPU"}},{"ph":"M","name":"process_sort_index","pid":10,"args":{"sort_index":10}},
      {"ph":"M","name":"process_name","pid":0,"args":{"name":"python3"}},{"ph":"M","name":"process_labels","pid":0,"args":{"labels":"GPU 0"}},
      {"ph":"M","name":"thread_name","pid":0,"tid":7,"args":{"name":"stream 7 "}},{"ph":"M","name":"thread_sort_index","pid":0,"tid":7,"args":{"sort_index":7}},
      {"ph":"M","name":"num_cpus","args":{"number":4}})"));
  EXPECT_EQ(
      t.rows("processes"),
      (std::vector<test::Row>{{{"pid", "10"}, {"name", "python3"}, {"args", R"({"labels":"CPU","sort_index":10})"}}}));
  EXPECT_EQ(t.rows("threads"), (std::vector<test::Row>{{{"pid", "0"}, {"tid", "7"}, {"name", "stream 7 "}}}));
  auto rows = t.rows("metadata");
  EXPECT_EQ(at(only(rows, "key", "device_process"), "value"), R"({"pid":0,"name":"python3","labels":"GPU 0"})");
  EXPECT_EQ(at(only(rows, "key", "num_cpus"), "value"), R"({"args":{"number":4}})");
  EXPECT_EQ(at(only(rows, "key", "thread_sort_index"), "value"), R"({"pid":0,"tid":7,"args":{"sort_index":7}})");
}

TEST(ImportSteps, HostByTimeAndDeviceByLaunch) {
  std::string events;
  auto add = [&](const char* cat, const char* name, double ts, double dur, int correlation) {
    events += (events.empty() ? "" : ",") + std::string(R"({"ph":"X","cat":")") + cat + R"(","name":")" + name +
              R"(","pid":1,"tid":1,"ts":)" + std::to_string(ts) + ",\"dur\":" + std::to_string(dur) +
              (correlation ? ",\"args\":{\"correlation\":" + std::to_string(correlation) + "}" : "") + "}";
  };
  // The kernel of step 1 runs in the time of step 2, and stands before everything else.
  add("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 150, 10, 7);
  add("kernel", "k2", 190, 10, 8);
  add("kernel", "k?", 190, 10, 99);
  add("cpu_op", "before", 5, 1, 0);
  add("cpu_op", "in1", 50, 100, 0);
  add("cuda_runtime", "launch1", 60, 1, 7);
  add("cuda_runtime", "launch2", 110, 1, 8);
  add("user_annotation", "ProfilerStep#1", 10, 90, 0);
  add("user_annotation", "ProfilerStep#2", 100, 100, 0);
  add("user_annotation", "ProfilerStep#x", 0, 1000, 0);
  add("cpu_op", "at2", 100, 1, 0);
  add("cpu_op", "after", 200, 1, 0);
  Imported t(asArray(events));
  auto rows = t.rows("events");
  auto step = [&](const char* name) { return at(only(rows, "name", name), "step"); };
  EXPECT_EQ(step("before"), "NULL");
  EXPECT_EQ(step("in1"), "1");
  EXPECT_EQ(step("launch1"), "1");
  EXPECT_EQ(step("at2"), "2");
  EXPECT_EQ(step("after"), "NULL");
  EXPECT_EQ(step("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"), "1");
  EXPECT_EQ(step("k2"), "2");
  EXPECT_EQ(step("k?"), "NULL");
  EXPECT_EQ(step("ProfilerStep#1"), "1");
  EXPECT_EQ(at(t.rows("collectives").at(0), "step"), "1");
  auto steps = t.rows("steps");
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0], (test::Row{{"ts", "10000"},
                                 {"dur", "90000"},
                                 {"ts_end", "100000"},
                                 {"pid", "1"},
                                 {"step", "1"},
                                 {"name", "ProfilerStep#1"}}));
}

TEST(ImportSteps, IndexOfLaunchesIsExactInAnyOrder) {
  uint64_t seed = 1;
  for (int round = 0; round < 200; ++round) {
    StepIndex index;
    std::map<int64_t, int64_t> truth;
    for (int i = 0; i < 60; ++i) {
      seed = seed * 6364136223846793005ull + 1442695040888963407ull;
      auto correlation = static_cast<int64_t>(seed >> 33) % 40;
      auto step = static_cast<int64_t>(seed >> 53) % 3;
      if (truth.contains(correlation)) continue;
      truth[correlation] = step;
      index.launch(correlation, step);
    }
    for (auto [c, s] : truth) EXPECT_EQ(index.ofLaunch(c), s) << round;
  }
}

TEST(ImportSteps, LaterStepWinsWhereTwoOverlap) {
  StepIndex index;
  index.add(0, 100, 1);
  index.add(50, 100, 2);
  index.add(60, 10, 3);
  index.seal();
  const std::pair<int64_t, int64_t> cases[] = {{-1, kNull}, {0, 1},  {49, 1},  {50, 2},  {60, 3},
                                               {69, 3},     {70, 2}, {100, 2}, {149, 2}, {150, kNull}};
  for (auto [ts, step] : cases) EXPECT_EQ(index.at(ts), step) << ts;
}

std::string ncclKernel(const std::string& name, const std::string& args) {
  return R"({"ph":"X","cat":"kernel","name":")" + name +
         R"(","pid":2,"tid":40,"ts":10,"dur":5,"args":{"device":2,"stream":40,"correlation":77,"grid":[8,1,1])" +
         (args.empty() ? "" : "," + args) + "}}";
}

TEST(ImportCollectives, FromArgsAndName) {
  Imported t(asObject(
      ncclKernel(
          "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
          R"("Collective name":"allreduce","In msg nelems":1000,"Out msg nelems":1000,"Group size":2,"dtype":"Float","Process Group Name":"0","Process Group Ranks":"[0, 5]","Seq":12)"),
      R"("distributedInfo":{"rank":5})"));
  auto row = t.rows("collectives").at(0);
  const test::Row expected = {
      {"ts", "10000"},
      {"dur", "5000"},
      {"ts_end", "15000"},
      {"op", "all_reduce"},
      {"comm", "0"},
      {"seq", "12"},
      {"rank", "5"},
      {"group_size", "2"},
      {"bytes", "4000"},
      {"elements", "1000"},
      {"dtype", "Float"},
      {"algo", "ring"},
      {"proto", "LL"},
      {"channels", "8"},
      {"device", "2"},
      {"stream", "40"},
      {"correlation", "77"},
      {"name", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)"}};
  EXPECT_EQ(row, expected);  // group_rank: the rank was not known yet
  EXPECT_NE(at(t.rows("events").at(0), "args").find("\"Collective name\":\"allreduce\""), std::string::npos);
}

TEST(ImportCollectives, NumberFromTheCallWhereTheKernelHasNone) {
  auto call = [](int id, const char* seq) {
    return R"({"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":10,"tid":11,"ts":1,"dur":2,"args":{"External id":)" +
           std::to_string(id) + R"(,"Collective name":"allreduce","Seq":)" + seq + "}},";
  };
  Imported t(asArray(call(5, "7") + call(6, "\"odd\"") +
                     ncclKernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", R"("External id":5)") + "," +
                     ncclKernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", R"("External id":6)") + "," +
                     ncclKernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", R"("External id":5,"Seq":9)")));
  auto rows = t.rows("collectives");
  ASSERT_EQ(rows.size(), 3u);  // calls are not rows of their own
  EXPECT_EQ(at(rows[0], "seq"), "7");
  EXPECT_EQ(at(rows[1], "seq"), "NULL");
  EXPECT_EQ(at(rows[2], "seq"), "9");
}

TEST(ImportCollectives, CountOfAllSendsAndReceivesIsNoNumberOfAPair) {
  Imported t(asArray(ncclKernel("ncclDevKernel_SendRecv(x)", R"("Collective name":"send","Dst Rank":1,"Seq":3)")));
  EXPECT_EQ(at(t.rows("collectives").at(0), "seq"), "NULL");
  EXPECT_EQ(at(t.rows("collectives").at(0), "peer"), "1");
}

TEST(ImportCollectives, OfLibrariesOnTheHost) {
  Imported t(asArray(
      R"({"ph":"X","name":"gloo:all_reduce","ts":4,"dur":2,"tid":2,"pid":"CPU functions","args":{}},
         {"ph":"X","name":"aten::mm","ts":4,"dur":2,"tid":1,"pid":"CPU functions","args":{}},
         {"ph":"X","name":"ProfilerStep#3","ts":0,"dur":9,"tid":1,"pid":"CPU functions","args":{}},
         {"ph":"X","cat":"user_annotation","name":"nccl:all_reduce","ts":4,"dur":2,"tid":1,"pid":"CPU functions"}
)"));
  EXPECT_EQ(t.rows("collectives"), (std::vector<test::Row>{{{"ts", "4000"},
                                                            {"dur", "2000"},
                                                            {"ts_end", "6000"},
                                                            {"op", "all_reduce"},
                                                            {"step", "3"},
                                                            {"name", "gloo:all_reduce"}}}));
  EXPECT_EQ(at(only(t.rows("events"), "name", "aten::mm"), "type"), "cpu_op");
  EXPECT_EQ(at(only(t.rows("events"), "name", "gloo:all_reduce"), "type"), "annotation");
}

TEST(ImportCollectives, GroupRankWhereTheRankIsKnown) {
  std::string event = ncclKernel("ncclDevKernel_Broadcast_RING_LL(x)",
                                 R"("Collective name":"broadcast","Process Group Ranks":"[0, 5, 9]")");
  Imported t(R"({"distributedInfo":{"rank":5},"traceEvents":[)" + event + "]}");
  EXPECT_EQ(at(t.rows("collectives").at(0), "group_rank"), "1");
  std::string cut = ncclKernel("ncclDevKernel_Broadcast_RING_LL(x)", R"("Process Group Ranks":"[0, 1, ..., 9]")");
  Imported c(R"({"distributedInfo":{"rank":9},"traceEvents":[)" + cut + "]}");
  EXPECT_EQ(at(c.rows("collectives").at(0), "group_rank"), "NULL");
}

TEST(ImportCollectives, BytesAreTheMessageOfThisRank) {
  auto bytes = [](const char* op, const char* dtype) {
    Imported t(asArray(ncclKernel("ncclDevKernel_Generic_1(x)",
                                  std::string(R"("Collective name":")") + op +
                                      R"(","In msg nelems":100,"Out msg nelems":800,"dtype":")" + dtype + "\"")));
    return at(t.rows("collectives").at(0), "bytes");
  };
  EXPECT_EQ(bytes("_allgather_base", "BFloat16"), "200");
  EXPECT_EQ(bytes("_reduce_scatter_base", "Half"), "1600");
  EXPECT_EQ(bytes("all_to_all", "Long"), "800");
  EXPECT_EQ(bytes("allreduce", "Float8_e4m3fn"), "100");
  EXPECT_EQ(bytes("allreduce", "Quantum"), "NULL");
}

TEST(ImportCollectives, NameAloneLeavesTheRestNull) {
  Imported t(asArray(ncclKernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", "") + "," +
                     ncclKernel("ncclDevKernel_AllGather_NVLS_TREE_LL128(x)", "") + "," +
                     ncclKernel("ncclDevKernel_Generic_4(x)", "") + "," + ncclKernel("plain_kernel", "")));
  auto rows = t.rows("collectives");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(at(rows[0], "op"), "send_recv");
  EXPECT_EQ(at(rows[0], "proto"), "Simple");
  EXPECT_EQ(at(rows[0], "bytes"), "NULL");
  EXPECT_EQ(at(rows[0], "comm"), "NULL");
  EXPECT_EQ(at(rows[1], "algo"), "nvls_tree");
  EXPECT_EQ(at(rows[1], "proto"), "LL128");
  EXPECT_EQ(at(rows[2], "op"), "NULL");
}

TEST(ImportCollectives, KernelsOfOtherLibrariesAreCommunicationToo) {
  Imported t(asArray(ncclKernel("void deep_ep::intranode::dispatch<8>(int*)", "") + "," +
                     ncclKernel("void vllm::cross_device_reduce_2stage<__half, 8>(vllm::RankData*)", "")));
  auto rows = t.rows("collectives");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(at(rows[0], "op"), "dispatch");
  EXPECT_EQ(at(rows[0], "channels"), "NULL") << "only NCCL runs one block a channel";
  EXPECT_EQ(at(rows[1], "op"), "all_reduce");
}

TEST(ImportCollectives, PeersOfPointToPoint) {
  Imported t(asArray(
      ncclKernel(
          "ncclDevKernel_SendRecv(x)",
          R"("Collective name":"send","Src Rank":1,"Dst Rank":4,"In msg nelems":8,"Out msg nelems":0,"dtype":"Int")") +
      "," +
      ncclKernel(
          "ncclDevKernel_SendRecv(x)",
          R"("Collective name":"recv","Src Rank":1,"Dst Rank":4,"In msg nelems":0,"Out msg nelems":8,"dtype":"Int")")));
  auto rows = t.rows("collectives");
  EXPECT_EQ(at(rows[0], "peer"), "4");
  EXPECT_EQ(at(rows[1], "peer"), "1");
  EXPECT_EQ(at(rows[0], "bytes"), "32");
  EXPECT_EQ(at(rows[1], "bytes"), "32");
}

}  // namespace
}  // namespace tracesmith::trace
