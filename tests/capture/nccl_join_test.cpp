// Which kernels say something about one peer.
#include "capture/collect/nccl_join.hpp"

#include <gtest/gtest.h>

namespace tracesmith::capture {
namespace {

/// One launch on a stream with sends and receives to these peers, then its kernel: whether it is told as mixed.
std::vector<bool> mixed(const std::vector<int>& peers) {
  NcclJoin join;
  std::vector<bool> out;
  auto done = [&](const NcclJoin::Operation& o, const ring::KernelRecord*) { out.push_back(o.mixed); };
  auto name = [](uint32_t) { return std::string_view("ncclDevKernel_SendRecv"); };
  join.launch(1, {.start = 10, .end = 11, .stream = 7}, 0, done);
  for (int peer : peers) join.operation(1, {.pair = true, .start = 10, .peer = static_cast<int16_t>(peer)}, 0, done);
  join.kernel({.start = 20, .end = 30, .stream = 7}, 0, name, done);
  join.settle(name, done);
  return out;
}

TEST(NcclJoin, AKernelForSeveralPeersIsToldAsSuch) {
  EXPECT_EQ(mixed({3}), (std::vector<bool>{false}));
  EXPECT_EQ(mixed({3, 3}), (std::vector<bool>{false, false})) << "a send and a receive";
  EXPECT_EQ(mixed({3, 5, 3}), (std::vector<bool>{true, true, true}));
}

/// Without launch calls. CUPTI has a buffer for each thread, and holds one back as long as a kernel in it runs.
TEST(NcclJoin, AKernelThatComesTenSecondsLateIsSeenAndTheNextOnesAreRight) {
  constexpr uint64_t kS = 1'000'000'000;
  NcclJoin join;
  std::map<uint64_t, int64_t> kernel_of;  // by number
  auto done = [&](const NcclJoin::Operation& o, const ring::KernelRecord* k) {
    kernel_of[o.record.sequence] = k ? static_cast<int64_t>(k->correlation) : -1;
  };
  auto name = [](uint32_t) { return std::string_view("ncclDevKernel_AllReduce"); };
  auto launch = [&](uint64_t number) {  // on two threads in turn
    const auto lane = static_cast<uint32_t>(1 + number % 2);
    join.launch(lane, {.start = 10 * number, .end = 10 * number + 1, .stream = 7}, 0, done);
    join.operation(lane, {.start = 10 * number + 2, .sequence = number}, 0, done);
  };
  auto kernel = [&](uint32_t number, uint64_t now) {
    join.kernel({.start = 10 * number + 5, .end = 10 * number + 8, .stream = 7, .correlation = number}, now, name,
                done);
  };
  for (uint64_t i = 1; i <= 8; ++i) launch(i);
  for (uint32_t i : {2, 4}) kernel(i, kS);
  join.pass(4 * kS, name, done);
  for (uint32_t i : {1, 3}) kernel(i, 11 * kS);
  for (uint32_t i : {5, 6, 7, 8}) kernel(i, 11 * kS);
  join.pass(14 * kS, name, done);
  join.settle(name, done);
  EXPECT_EQ(kernel_of, (std::map<uint64_t, int64_t>{{1, 2}, {2, 4}, {3, -1}, {4, -1}, {5, 5}, {6, 6}, {7, 7}, {8, 8}}));
  EXPECT_EQ(join.doubted, 2u) << "those that got another's";
  EXPECT_EQ(join.lost, 2u);
  EXPECT_EQ(join.lone, 0u);
}

}  // namespace
}  // namespace tracesmith::capture
