// The NCCL plugin, called as NCCL calls it (versions 1 to 7), under `tracesmith run`: every operation is a row of
// `collectives`, with its kernel where there was one.
#include <gtest/gtest.h>
#include <signal.h>

#include <sstream>

#include "capture/nccl_fixture.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith {
namespace {

class NcclVersion : public NcclTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(V, NcclVersion, ::testing::Range(1, 8));

TEST_P(NcclVersion, EveryOperationIsARow) {
  const int version = GetParam();
  const Output o = run({"basic", std::to_string(version)});
  ASSERT_EQ(o.rc, 0) << o.err;
  const std::vector<Row> c = collectives();
  ASSERT_EQ(c.size(), 8u);
  const struct {
    const char *op, *dtype;
    int64_t seq, elements, bytes, peer;
    const char *algo, *proto;
  } expected[] = {
      {"all_reduce", "float32", 0, 1000, 4000, trace::kNull, "ring", "LL"},
      {"all_gather", "int8", 0, 4096, 4096, trace::kNull, "tree", "SIMPLE"},
      {"broadcast", "int8", 0, 512, 512, 2, "ring", "LL"},
      {"reduce_scatter", "bfloat16", 0, 10, 20, trace::kNull, "ring", "LL"},
      {"reduce", "float64", 0, 20, 160, 1, "ring", "LL"},
      {"all_reduce", "NULL", 1, 77, 77, trace::kNull, "ring", "LL"},  // what NCCL has no name for has one byte
      {"send", "float32", 0, 100, 400, 5, "NULL", "NULL"},
      {"recv", "float32", 0, 200, 800, 6, "NULL", "NULL"}};
  const auto k = kernels();
  for (size_t i = 0; i < c.size(); ++i) {
    const auto& e = expected[i];
    SCOPED_TRACE(std::string(e.op) + " of version " + std::to_string(version));
    EXPECT_EQ(c[i].s("op"), e.op);
    EXPECT_EQ(c[i].s("comm"), "0000000000c0ffee");
    EXPECT_EQ(c[i].i("seq"), i < 6 ? static_cast<int64_t>(i) : 0) << "over all functions; by pair";
    EXPECT_EQ(c[i].i("nccl_seq"), i < 6 ? e.seq : trace::kNull);
    EXPECT_EQ(c[i].i("rank"), 11) << "the job's";
    EXPECT_EQ(c[i].i("group_rank"), 3) << "the communicator's";
    EXPECT_EQ(c[i].i("group_size"), version >= 4 ? 8 : trace::kNull);
    EXPECT_EQ(c[i].i("elements"), e.elements);
    EXPECT_EQ(c[i].i("peer"), e.peer);
    const bool p2p = i >= 6;
    if (version == 1) {  // numbers where later versions have names: it knows uint8 and always says ring, LL here
      EXPECT_EQ(c[i].s("dtype"), i == 5 ? "int8" : e.dtype);
      EXPECT_EQ(c[i].s("algo"), p2p ? "NULL" : "ring");
    } else {
      EXPECT_EQ(c[i].s("dtype"), e.dtype);
      EXPECT_EQ(c[i].s("algo"), e.algo);
      EXPECT_EQ(c[i].s("proto"), e.proto);
    }
    EXPECT_EQ(c[i].i("bytes"), e.bytes);
    EXPECT_EQ(c[i].i("channels"), !p2p ? 4 : version >= 4 ? 2 : trace::kNull);
    expectKernel(c[i], k);
  }
  const std::vector<Row> groups = rows(trace(), "groups");
  ASSERT_EQ(groups.size(), version >= 4 ? 1u : 0u);
  if (version >= 4) {
    EXPECT_EQ(groups[0].s("comm"), "0000000000c0ffee");
    EXPECT_EQ(groups[0].s("description"), "world");
    EXPECT_EQ(groups[0].i("size"), 8);
  }
  EXPECT_TRUE(losses(trace()).empty());
  EXPECT_NE(o.err.find("8 collectives"), std::string::npos) << o.err;
}

TEST_F(NcclTest, OperationsOfOneLaunchShareItsKernelAndStreamsKeepTheirOrder) {
  ASSERT_EQ(run({"grouped"}).rc, 0);
  const auto k = kernels();
  std::map<int64_t, std::vector<int64_t>> by_kernel;
  for (const Row& c : collectives()) {
    expectKernel(c, k);
    by_kernel[c.i("correlation")].push_back(c.i("seq"));
    EXPECT_EQ(c.i("stream"), 20 + c.i("seq") / 3 % 2);
    EXPECT_EQ(c.i("elements"), c.i("seq") / 3 + 1);
  }
  ASSERT_EQ(by_kernel.size(), 10u);
  int64_t next = 0;
  for (const auto& [correlation, sequences] : by_kernel) {
    EXPECT_EQ(sequences, (std::vector<int64_t>{next, next + 1, next + 2}));
    next += 3;
  }
}

TEST_F(NcclTest, ThreadsDoNotDisturbEachOther) {
  const Output o = run({"threads"}, {"--proxy"});
  ASSERT_EQ(o.rc, 0) << o.err;
  const auto k = kernels();
  std::map<int64_t, int64_t> next;
  const std::vector<Row> c = collectives();
  EXPECT_EQ(c.size(), 6u * 200);
  std::set<int64_t> numbers;
  std::map<int64_t, int64_t> last;  // stream → start of the kernel before
  for (const Row& row : c) {
    expectKernel(row, k);
    const int64_t thread = row.i("stream") - 20;
    EXPECT_EQ(row.i("nccl_seq"), next[thread]++);
    EXPECT_TRUE(numbers.insert(row.i("seq")).second);
    EXPECT_EQ(row.i("elements"), 1000 * (thread + 1) + row.i("nccl_seq"))
        << "a thread's operation has another's kernel";
    EXPECT_GT(row.i("ts"), last[thread]);
    last[thread] = row.i("ts");
  }
  const std::vector<Row> proxy = rows(trace(), "proxy_ops");
  EXPECT_GT(proxy.size(), 0u);
  size_t sends = 0;
  for (const Row& p : proxy) {
    sends += p.s("direction") == "send";
    EXPECT_GE(p.i("dur"), 0);
    EXPECT_EQ(p.i("peer"), p.s("direction") == "send" ? 2 : 3);
  }
  EXPECT_EQ(sends * 2, proxy.size());
  EXPECT_TRUE(losses(trace()).empty());
}

TEST_F(NcclTest, SendsAndReceivesAreCountedByPairWhoeverRecords) {
  ASSERT_EQ(run({"pairs"}).rc, 0);
  std::map<std::string, std::vector<std::string>> seen;
  for (const Row& r : collectives())
    seen[r.s("comm")].push_back(r.s("op") + " " + std::to_string(r.i("peer")) + " " + std::to_string(r.i("seq")));
  const std::vector<std::string> each = {"send 1 0", "recv 1 0", "send 2 1", "recv 1 1", "send 1 2"};
  EXPECT_EQ(seen,
            (std::map<std::string, std::vector<std::string>>{{"0000000000c0ffee", each}, {"0000000000c101ee", each}}));
}

TEST_P(NcclVersion, CollectivesAreCountedOverAllFunctionsWhoeverRecords) {
  ASSERT_EQ(run({"numbers", std::to_string(GetParam())}).rc, 0);
  std::map<std::string, std::vector<std::string>> seen;
  for (const Row& r : collectives())
    seen[r.s("comm")].push_back(r.s("op") + " " + std::to_string(r.i("seq")) + " " + std::to_string(r.i("nccl_seq")));
  // One was called while nobody recorded. Another was captured: it takes a number when its graph is launched.
  const std::map<std::string, std::vector<std::string>> expected = {
      {"0000000000c0ffee", {"all_gather 0 0", "all_gather 1 1", "all_gather 3 2", "reduce_scatter 4 1"}},
      {"0000000000000bee", {"all_reduce 0 0", "all_gather 2 0"}}};
  EXPECT_EQ(seen, expected);
}

TEST_F(NcclTest, StaleAndForeignHandlesDoNoHarm) {
  const Output o = run({"stale"}, {"--proxy"});
  ASSERT_EQ(o.rc, 0) << o.err;
  const std::vector<Row> c = collectives();
  ASSERT_EQ(c.size(), 2u) << "what came without a context belongs to nobody";
  EXPECT_EQ(c[0].i("nccl_seq"), 42);
  expectKernel(c[0], kernels());
  EXPECT_EQ(c[1].i("nccl_seq"), 43);
  EXPECT_TRUE(c[1].null("algo"));
  EXPECT_EQ(rows(trace(), "proxy_ops").size(), 0u);
}

TEST_F(NcclTest, GraphReplaysAreRowsOfTheirOwn) {
  const Output o = run({"graph"});
  ASSERT_EQ(o.rc, 0) << o.err;
  const std::vector<Row> c = collectives();
  ASSERT_EQ(c.size(), 5001u);
  for (const Row& row : c) {
    if (row.i("elements") == 2) {
      expectInFlight(row);
      EXPECT_TRUE(row.null("seq")) << "one call, any number of replays";
    } else {
      expectKernel(row, kernels());
      EXPECT_EQ(row.i("seq"), 0) << "the one that was captured has no number";
    }
  }
  EXPECT_TRUE(losses(trace()).empty());
}

TEST_F(NcclTest, WhatAnotherThreadTellsOfLaterHasItsKernelAndTheTimeOfItsLaunch) {
  for (const char* mode : {"default", "light"}) {
    const Output o = run({"elsewhere"}, {"--mode", mode});
    ASSERT_EQ(o.rc, 0) << o.err;
    const std::vector<Row> c = collectives();
    ASSERT_EQ(c.size(), 12u);
    std::map<int64_t, int64_t> enqueued;  // by elements
    for (const Row& row : c) {
      expectKernel(row, kernels());
      EXPECT_LE(row.i("ts_enqueue"), row.i("ts"));
      enqueued[row.i("elements")] = row.i("ts");
    }
    int64_t before = 0;
    for (const auto& [elements, start] : enqueued)
      EXPECT_GT(start, std::exchange(before, start)) << mode << ": not its own kernel";
    EXPECT_TRUE(losses(trace()).empty()) << mode;
  }
}

TEST_F(NcclTest, ProxyOperationsOfThisProcessAreRows) {
  ASSERT_EQ(run({"proxy"}, {"--proxy"}).rc, 0);
  const std::vector<Row> p = rows(trace(), "proxy_ops");
  ASSERT_EQ(p.size(), 10u);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(p[i].i("channel"), static_cast<int64_t>(i));
    EXPECT_EQ(p[i].i("peer"), static_cast<int64_t>(i % 4));
    EXPECT_EQ(p[i].s("direction"), i % 2 == 0 ? "send" : "recv");
    EXPECT_EQ(p[i].i("steps"), 4);
    EXPECT_EQ(p[i].i("bytes"), 4 * 65536);
    EXPECT_EQ(p[i].s("comm"), "0000000000c0ffee");
    for (const char* wait : {"gpu_wait", "peer_wait", "net_wait"}) EXPECT_TRUE(p[i].null(wait)) << "no step was told";
  }
  ASSERT_EQ(run({"basic"}).rc, 0);
  EXPECT_EQ(rows(trace(), "proxy_ops").size(), 0u) << "only with --proxy";
}

TEST_P(NcclVersion, AProxyOperationSaysWhatItWaitedFor) {
  ASSERT_EQ(run({"steps", std::to_string(GetParam())}, {"--proxy"}).rc, 0);
  const std::vector<Row> p = rows(trace(), "proxy_ops");
  ASSERT_EQ(p.size(), 3u);
  const bool tells = GetParam() >= 4;  // sizes, and when it waits for the peer
  constexpr int64_t kMs = 1'000'000;
  const Row &send = p[0], &receive = p[1], &silent = p[2];
  EXPECT_EQ(send.i("bytes"), tells ? 1500 : 4 * 65536);
  EXPECT_GE(send.i("gpu_wait"), tells ? 4 * kMs : 6 * kMs);
  EXPECT_GE(send.i("net_wait"), 8 * kMs);
  if (tells)
    EXPECT_GE(send.i("peer_wait"), 2 * kMs);
  else
    EXPECT_TRUE(send.null("peer_wait"));
  const int64_t peer = tells ? send.i("peer_wait") : 0;
  EXPECT_LE(send.i("gpu_wait") + peer + send.i("net_wait"), send.i("dur")) << "no moment counts twice";
  EXPECT_EQ(receive.i("bytes"), tells ? 2000 : 4 * 65536);
  EXPECT_GE(receive.i("net_wait"), 3 * kMs);
  EXPECT_GE(receive.i("gpu_wait"), 1 * kMs);
  EXPECT_TRUE(receive.null("peer_wait"));
  EXPECT_LE(receive.i("gpu_wait") + receive.i("net_wait"), receive.i("dur"));
  for (const char* wait : {"gpu_wait", "peer_wait", "net_wait"}) EXPECT_TRUE(silent.null(wait)) << wait;
  EXPECT_TRUE(losses(trace()).empty());
}

TEST_F(NcclTest, UnloadedAndLoadedAgainItGoesOn) {
  ASSERT_EQ(run({"reload"}).rc, 0);
  const std::vector<Row> c = collectives();
  ASSERT_EQ(c.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(c[i].i("seq"), 0) << "each communicator counts from 0";
    EXPECT_EQ(c[i].i("nccl_seq"), static_cast<int64_t>(i));
    EXPECT_EQ(c[i].s("comm"), "000000000000010" + std::to_string(i));
  }
}

TEST_F(NcclTest, MoreCommunicatorsThanPlacesTurnNobodyOff) {
  const Output o = run({"many"});
  ASSERT_EQ(o.rc, 0) << o.err;
  size_t named = 0, unnamed = 0, later = 0, first = 0;
  for (const Row& c : collectives()) {
    if (c.i("elements") == 1) ++(c.null("comm") ? unnamed : named);
    if (c.i("elements") == 2) first += c.s("comm") == "0000000000001000";
    if (c.i("elements") == 3) {
      char hash[32];
      std::snprintf(hash, sizeof hash, "%016llx", 0x9000ull + static_cast<unsigned long long>(c.i("nccl_seq")));
      later += c.s("comm") == hash;
    }
  }
  EXPECT_EQ(named, 512u);
  EXPECT_EQ(unnamed, 188u);
  EXPECT_EQ(first, 1u);
  EXPECT_EQ(later, 100u) << "places of finalized communicators are free";
  EXPECT_NE(o.err.find("more than 512 communicators"), std::string::npos) << o.err;
}

TEST_F(NcclTest, TwoRanksOfOneProcessAreTold) {
  ASSERT_EQ(run({"ranks"}).rc, 0);
  const std::vector<Row> c = collectives();
  ASSERT_EQ(c.size(), 2u);
  for (const Row& row : c) {
    EXPECT_EQ(row.i("group_rank"), row.i("stream") - 20);
    EXPECT_EQ(row.i("group_size"), 2);
    EXPECT_EQ(row.i("seq"), 0);
    EXPECT_EQ(row.i("nccl_seq"), 7);
  }
}

TEST_F(NcclTest, OperationsInFlightAtTheEndHaveNoTimesButTheirEnqueue) {
  EXPECT_EQ(run({"hang"}).rc, 128 + SIGABRT);
  const std::vector<Row> c = collectives();
  size_t in_flight = 0;
  for (const Row& row : c) {
    if (row.i("seq") == 0 && row.s("op") == "all_reduce") continue;  // whether its kernel was flushed is chance
    expectInFlight(row);
    ++in_flight;
  }
  EXPECT_EQ(c.size(), 3u);
  EXPECT_EQ(in_flight, 2u);
}

class NcclMode : public NcclTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(M, NcclMode, ::testing::Values("light", "default", "full"));

TEST_P(NcclMode, ALostKernelDoesNotShiftTheOthers) {
  ASSERT_EQ(run({"lost"}, {"--mode", GetParam()}).rc, 0);
  const auto k = kernels();
  const std::vector<Row> c = collectives();
  ASSERT_EQ(c.size(), 20u);
  for (const Row& row : c) {
    if (row.s("op") == "all_gather" && row.i("nccl_seq") == 3) {
      expectInFlight(row);
      continue;
    }
    expectKernel(row, k);
    EXPECT_EQ(row.i("correlation"), row.i("nccl_seq") * 2 + (row.s("op") == "all_gather" ? 1 : 2));
  }
  EXPECT_EQ(losses(trace()),
            (std::map<std::string, int64_t>{{"bad timestamp", 1}, {"operations without a kernel", 1}}));
}

TEST_F(NcclTest, OperationsWhileAnotherProfilerHadCuptiDoNotShiftTheOthers) {
  const Output o = run({"aside"});
  ASSERT_EQ(o.rc, 0) << o.err;
  const auto k = kernels();
  const std::vector<Row> c = collectives();
  ASSERT_EQ(c.size(), 20u);
  for (const Row& row : c) {
    SCOPED_TRACE(row.i("seq"));
    if (row.i("seq") >= 5 && row.i("seq") < 15) {
      expectInFlight(row);
    } else {
      expectKernel(row, k);
      EXPECT_EQ(row.i("correlation"), row.i("seq") + 1);
    }
  }
}

}  // namespace
}  // namespace tracesmith
