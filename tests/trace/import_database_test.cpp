// Databases of Nsight Systems and rocprofv3, made here with the tables that they document.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "support/imported.hpp"

namespace tracesmith::trace {
namespace {

using test::at;
using test::Imported;
using test::only;

/// The file that these statements make.
std::string database(const std::string& sql) {
  test::TempDir dir;
  const std::string path = dir / "made.sqlite";
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
  sqlite3_close(db);
  return test::readFile(path);
}

constexpr const char* kNsys = R"(
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO StringIds VALUES (1, 'void gemm<float>(float*)'), (2, 'gemm'), (3, 'cudaLaunchKernel_v7000'), (4, 'cuMemcpyHtoDAsync_v2'),
  (5, 'ProfilerStep#4'), (6, 'trainer'), (7, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'), (8, 'read');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT NOT NULL, end INT NOT NULL, deviceId INT, contextId INT, streamId INT,
  correlationId INT, globalPid INT, demangledName INT, shortName INT, gridX INT, gridY INT, gridZ INT, blockX INT, blockY INT,
  blockZ INT, registersPerThread INT, staticSharedMemory INT, dynamicSharedMemory INT, graphNodeId INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT NOT NULL, end INT NOT NULL, eventClass INT, globalTid INT, correlationId INT,
  nameId INT NOT NULL, returnValue INT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT NOT NULL, end INT NOT NULL, deviceId INT, contextId INT, streamId INT,
  correlationId INT, globalPid INT, bytes INT, copyKind INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INT, end INT, deviceId INT, contextId INT, streamId INT,
  correlationId INT, globalPid INT, syncType INT);
CREATE TABLE NVTX_EVENTS (start INT NOT NULL, end INT, eventType INT NOT NULL, text TEXT, globalTid INT, textId INT);
CREATE TABLE OSRT_API (start INT, end INT, globalTid INT, nameId INT);
CREATE TABLE ThreadNames (nameId INT, priority INT, globalTid INT);
CREATE TABLE PROCESSES (globalPid INT, pid INT, name TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT, utcTime TEXT);
CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INT, devStateName TEXT, name TEXT, nameEnum INT, value TEXT);
CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, totalMemory INT, smCount INT, cuDevice INT, computeMajor INT, computeMinor INT);
CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INT, sourceId INT, typeName TEXT, metricId INT, metricName TEXT);
CREATE TABLE GPU_METRICS (timestamp INT, typeId INT, metricId INT, value INT);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1790000000000000000, '');
INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'x', 'Hostname', 1, 'gpu-7');
INSERT INTO TARGET_INFO_GPU VALUES (3, 'NVIDIA H200', 150000000000, 132, 0, 9, 0);
)";

/// Of process `pid`: a step, in it a launch with its kernel, a copy, and a wait.
std::string process(int pid) {
  const std::string global = std::to_string((int64_t{0x1100} << 48) + (int64_t{pid} << 24));
  const std::string thread = "(" + global + " + 77)";
  return "INSERT INTO NVTX_EVENTS VALUES (1000, 90000, 59, NULL, " + thread + ", 5), (2000, NULL, 34, 'epoch', " +
         thread +
         ", NULL);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (2000, 3500, 0, " +
         thread + ", 10, 3, 0), (4000, 5000, 1, " + thread +
         ", 11, 4, 0);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10001, 20003, 0, 1, 7, 10, " +
         global + ", 1, 2, 8, 2, 1, 128, 1, 1, 40, 1024, 0, NULL), (30000, 40000, 0, 1, 20, 12, " + global +
         ", 7, 7, 4, 1, 1, 512, 1, 1, 96, 0, 0, NULL);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (21000, 22000, 0, 1, 7, 11, " +
         global +
         ", 4096, 1);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (41000, 50000, 0, 1, 7, 13, " +
         global +
         ", 3);"
         "INSERT INTO OSRT_API VALUES (1, 2, " +
         thread +
         ", 8);"
         "INSERT INTO ThreadNames VALUES (6, 0, " +
         thread +
         ");"
         "INSERT INTO PROCESSES VALUES (" +
         global + ", " + std::to_string(pid) + ", 'python');";
}

TEST(ImportNsys, CallsKernelsCopiesRangesAndMetricsAreRows) {
  Imported t(database(kNsys + process(500) +
                      "INSERT INTO TARGET_INFO_GPU_METRICS VALUES (256, 0, 'gpu', 5, 'SM Active');"
                      "INSERT INTO GPU_METRICS VALUES (60000, 256, 5, 42);"));
  ASSERT_TRUE(t.report) << t.error();
  EXPECT_EQ(t.report->events, 8u);
  const auto events = t.rows("events");
  const auto kernel = only(events, "name", "void gemm<float>(float*)");
  EXPECT_EQ(at(kernel, "ts"), "1790000000000010001");
  EXPECT_EQ(at(kernel, "dur"), "10002");
  for (const auto& [column, value] : std::map<std::string, std::string>{{"type", "kernel"},
                                                                        {"device", "0"},
                                                                        {"stream", "7"},
                                                                        {"context", "1"},
                                                                        {"correlation", "10"},
                                                                        {"pid", "500"},
                                                                        {"step", "4"},
                                                                        {"node", "gpu-7"},
                                                                        {"rank", "NULL"}})
    EXPECT_EQ(at(kernel, column), value) << column;
  const auto launch = only(events, "name", "cudaLaunchKernel");
  EXPECT_EQ(at(launch, "type"), "runtime");
  EXPECT_EQ(at(launch, "tid"), "77");
  EXPECT_EQ(at(only(events, "name", "cuMemcpyHtoDAsync"), "type"), "driver");
  const auto copy = only(events, "name", "Memcpy HtoD");
  EXPECT_EQ(at(copy, "type"), "memcpy");
  EXPECT_EQ(at(copy, "bytes"), "4096");
  EXPECT_EQ(at(only(events, "name", "Stream Sync"), "type"), "sync");
  EXPECT_EQ(at(only(events, "name", "epoch"), "type"), "marker");
  EXPECT_EQ(at(only(t.rows("collectives"), "op", "all_reduce"), "device"), "0");
  EXPECT_EQ(at(only(t.rows("threads"), "tid", "77"), "name"), "trainer");
  EXPECT_EQ(at(only(t.rows("processes"), "pid", "500"), "name"), "python");
  EXPECT_EQ(at(only(t.rows("devices"), "device", "0"), "sms"), "132");
  const auto metric = only(t.rows("counters"), "name", "GPU 0: SM Active");
  EXPECT_EQ(at(metric, "value"), "42");
  EXPECT_EQ(t.report->losses.total(), 0u);
  ASSERT_EQ(t.report->warnings.size(), 1u);
  EXPECT_TRUE(t.report->warnings[0].starts_with("1 row of OSRT_API in ")) << t.report->warnings[0];
}

TEST(ImportNsys, EachProcessWithAGpuIsARank) {
  Imported t(database(kNsys + process(700) + process(500)));
  ASSERT_TRUE(t.report) << t.error();
  EXPECT_EQ(t.report->ranks, (std::set<int64_t>{0, 1}));
  for (const auto& row : t.rows("events"))
    EXPECT_EQ(at(row, "rank"), at(row, "pid") == "500" ? "0" : "1") << at(row, "name");
  ASSERT_EQ(t.report->warnings.size(), 2u);
  EXPECT_TRUE(t.report->warnings[0].starts_with("the ranks of the 2 processes in ")) << t.report->warnings[0];
  EXPECT_EQ(at(only(t.rows("processes"), "rank", "1"), "pid"), "700");
}

TEST(ImportNsys, RanksOfMpiAreThose) {
  Imported t(
      database(kNsys + process(700) + process(500) +
               "CREATE TABLE MPI_RANKS (globalTid INT, rank INT);"
               "INSERT INTO MPI_RANKS SELECT globalPid + 1, CASE pid WHEN 500 THEN 9 ELSE 8 END FROM PROCESSES;"));
  ASSERT_TRUE(t.report) << t.error();
  EXPECT_EQ(t.report->ranks, (std::set<int64_t>{8, 9}));
  EXPECT_EQ(at(only(t.rows("processes"), "rank", "9"), "pid"), "500");
  EXPECT_EQ(t.report->warnings.size(), 1u) << "only about calls of the operating system";
}

TEST(ImportNsys, RowsThatCannotBeAreCountedAndColumnsMayBeMissing) {
  Imported t(database(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 0, 7), (9, 5, 0, 7), (-4, 5, 0, 7), ('x', 8, 0, 7);"));
  ASSERT_TRUE(t.report) << t.error();
  EXPECT_EQ(t.report->events, 2u);
  EXPECT_EQ(t.lost("unreadable row"), 2u);
}

TEST(ImportNsys, DamagedAndOtherDatabasesAreRefusedInOneLine) {
  Imported other(database("CREATE TABLE friends (name TEXT);"));
  EXPECT_NE(other.error().find("no kernels or ranges of Nsight Systems or rocprofv3"), std::string::npos)
      << other.error();
  std::string bytes = database(kNsys + process(500));
  Imported cut(bytes.substr(0, bytes.size() / 3));
  EXPECT_NE(cut.error(), "");
  for (size_t i = 100; i < bytes.size(); i += 7) bytes[i] = static_cast<char>(i);
  Imported damaged(bytes);
  EXPECT_NE(damaged.error(), "");
  EXPECT_EQ(damaged.error().find('\n'), std::string::npos);
}

TEST(ImportNsys, ViewsAreNotAsked) {
  Imported t(
      database("CREATE TABLE NVTX_EVENTS (start INT, end INT, text TEXT, globalTid INT);"
               "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start "
               "+ 1 FROM n) "
               "SELECT start, start + 1 AS end FROM n;"));
  ASSERT_TRUE(t.report) << t.error();
  EXPECT_EQ(t.report->events, 0u);
}

TEST(ImportRocpd, CallsKernelsCopiesAndRangesAreRows) {
  std::string sql;
  for (const std::string suffix : {"_0000a", "_0000b"}) {
    const std::string pid = suffix == "_0000a" ? "41" : "42";
    sql +=
        "CREATE TABLE rocpd_string" + suffix +
        " (id INTEGER PRIMARY KEY, string TEXT);"
        "INSERT INTO rocpd_string" +
        suffix +
        " VALUES (1, 'hipLaunchKernel'), (2, 'HIP_RUNTIME_API_EXT'), (3, 'roctxRangePushA'), (4, "
        "'MARKER_CORE_RANGE_API');"
        "CREATE TABLE rocpd_info_node" +
        suffix +
        " (id INTEGER PRIMARY KEY, hostname TEXT);"
        "INSERT INTO rocpd_info_node" +
        suffix +
        " VALUES (1, 'mi-3');"
        "CREATE TABLE rocpd_info_process" +
        suffix +
        " (id INTEGER PRIMARY KEY, pid INT, command TEXT);"
        "INSERT INTO rocpd_info_process" +
        suffix + " VALUES (1, " + pid +
        ", 'train');"
        "CREATE TABLE rocpd_info_thread" +
        suffix +
        " (id INTEGER PRIMARY KEY, pid INT, tid INT, name TEXT);"
        "INSERT INTO rocpd_info_thread" +
        suffix +
        " VALUES (5, 1, 99, 'main');"
        "CREATE TABLE rocpd_info_agent" +
        suffix +
        " (id INTEGER PRIMARY KEY, type TEXT, logical_index INT, type_index INT, name TEXT, model_name TEXT, "
        "product_name TEXT);"
        "INSERT INTO rocpd_info_agent" +
        suffix +
        " VALUES (1, 'CPU', 0, 0, 'epyc', '', ''), (2, 'GPU', 1, 0, 'gfx942', '', 'AMD Instinct MI300X');"
        "CREATE TABLE rocpd_event" +
        suffix +
        " (id INTEGER PRIMARY KEY, category_id INT, stack_id INT);"
        "INSERT INTO rocpd_event" +
        suffix +
        " VALUES (1, 2, 70), (2, NULL, 70), (3, 4, 71), (4, NULL, 72);"
        "CREATE TABLE rocpd_info_kernel_symbol" +
        suffix +
        " (id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT);"
        "INSERT INTO rocpd_info_kernel_symbol" +
        suffix +
        " VALUES (1, '_Z4gemm.kd', 'gemm');"
        "CREATE TABLE rocpd_region" +
        suffix +
        " (id INTEGER PRIMARY KEY, pid INT, tid INT, start INT, \"end\" INT, name_id INT, event_id INT, extdata TEXT);"
        "INSERT INTO rocpd_region" +
        suffix +
        " VALUES (1, 1, 5, 1000, 2000, 1, 1, '{}'), (2, 1, 5, 500, 9000, 3, 3, '{\"message\":\"ProfilerStep#2\"}');"
        "CREATE TABLE rocpd_kernel_dispatch" +
        suffix +
        " (id INTEGER PRIMARY KEY, pid INT, tid INT, agent_id INT, kernel_id INT, queue_id INT, stream_id INT, start "
        "INT, \"end\" INT,"
        " group_segment_size INT, workgroup_size_x INT, workgroup_size_y INT, workgroup_size_z INT, grid_size_x INT,"
        " grid_size_y INT, grid_size_z INT, event_id INT);"
        "INSERT INTO rocpd_kernel_dispatch" +
        suffix +
        " VALUES (1, 1, 5, 2, 1, 3, 4, 3000, 5000, 64, 256, 1, 1, 1000, 1, 1, 2);"
        "CREATE TABLE rocpd_memory_copy" +
        suffix +
        " (id INTEGER PRIMARY KEY, pid INT, tid INT, start INT, \"end\" INT, name_id INT, dst_agent_id INT, "
        "src_agent_id INT, size INT,"
        " queue_id INT, stream_id INT, event_id INT);"
        "INSERT INTO rocpd_memory_copy" +
        suffix + " VALUES (1, 1, 5, 6000, 6500, 1, 2, 1, 123, NULL, 4, 4);";
  }
  Imported t(database(
      sql + "CREATE TABLE rocpd_pmc_event_0000a (id INT); INSERT INTO rocpd_pmc_event_0000a VALUES (1), (2);"));
  ASSERT_TRUE(t.report) << t.error();
  EXPECT_EQ(t.report->events, 8u) << "of two processes";
  int kernels = 0;
  for (const auto& row : t.rows("events")) {
    EXPECT_EQ(at(row, "node"), "mi-3");
    if (at(row, "type") != "kernel") continue;
    ++kernels;
    EXPECT_EQ(at(row, "name"), "gemm");
    EXPECT_EQ(at(row, "device"), "1");
    EXPECT_EQ(at(row, "stream"), "4");
    EXPECT_EQ(at(row, "correlation"), "70");
  }
  EXPECT_EQ(kernels, 2);
  const auto events = t.rows("events");
  std::set<std::string> names;
  for (const auto& row : events) names.insert(at(row, "type") + " " + at(row, "name"));
  EXPECT_EQ(names, (std::set<std::string>{"annotation ProfilerStep#2", "kernel gemm", "memcpy Memcpy HtoD",
                                          "runtime hipLaunchKernel"}));
  ASSERT_EQ(t.report->warnings.size(), 1u);
  EXPECT_TRUE(t.report->warnings[0].starts_with("2 rows of rocpd_pmc_event_0000a in ")) << t.report->warnings[0];
}

}  // namespace
}  // namespace tracesmith::trace
