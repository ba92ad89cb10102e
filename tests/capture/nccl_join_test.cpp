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
  for (int peer : peers) join.operation(1, {.pair = true, .start = 10, .peer = peer}, 0, done);
  join.kernel({.start = 20, .end = 30, .stream = 7}, 0, name, done);
  join.settle(name, done);
  return out;
}

TEST(NcclJoin, AKernelForSeveralPeersIsToldAsSuch) {
  EXPECT_EQ(mixed({3}), (std::vector<bool>{false}));
  EXPECT_EQ(mixed({3, 3}), (std::vector<bool>{false, false})) << "a send and a receive";
  EXPECT_EQ(mixed({3, 5, 3}), (std::vector<bool>{true, true, true}));
}

/// A launch on one lane; another one, of CUDA's own thread, tells of the operation in it.
class ToldElsewhere : public ::testing::Test {
 protected:
  void launch(uint64_t at, uint64_t group) {
    join_.launch(1, {.start = at, .end = at + 4, .stream = 7, .group = group}, 50, done_);
    join_.call({.name = 2, .start = at + 1, .end = at + 2, .correlation = static_cast<uint32_t>(at), .thread = 50},
               text_, done_);
  }
  void told(uint64_t at, uint64_t number, uint32_t group) {
    join_.operation(2, {.function = 1, .start = at, .sequence = number, .group = group}, 60, done_);
  }
  void kernel(uint64_t at, uint32_t correlation) {
    join_.kernel({.name = 3, .start = at, .end = at + 5, .stream = 7, .correlation = correlation}, 0, text_, done_);
  }

  NcclJoin join_;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> ran_;  // number → enqueued, kernel
  NcclJoin::Done done_ = [this](const NcclJoin::Operation& o, const ring::KernelRecord* k) {
    ran_[o.record.sequence] = {o.record.start, k ? k->start : 0};
  };
  NcclJoin::Text text_ = [](uint32_t id) {
    constexpr std::string_view kTexts[] = {"", "AllReduce", "cuLaunchKernelEx", "ncclDevKernel_AllReduce"};
    return kTexts[id];
  };
  using Ran = std::map<uint64_t, std::pair<uint64_t, uint64_t>>;
};

TEST_F(ToldElsewhere, AnOperationIsFoundByItsGroupBeforeItsLaunchAndAfterItsKernel) {
  told(5, 0, 1);
  launch(10, 1);
  kernel(100, 10);
  launch(20, 2);
  told(90, 1, 2);
  kernel(120, 20);
  launch(30, 3);
  kernel(140, 30);
  told(150, 2, 3);
  join_.settle(text_, done_);
  EXPECT_EQ(ran_, (Ran{{0, {10, 100}}, {1, {20, 120}}, {2, {30, 140}}}));
  EXPECT_EQ(join_.lost + join_.lone, 0u);
}

TEST_F(ToldElsewhere, SeveralLaunchesOfAGroupGetTheirOperationsInOrder) {
  launch(10, 1);
  launch(20, 1);
  told(30, 0, 1);
  told(31, 1, 1);
  kernel(100, 10);
  kernel(120, 20);
  join_.settle(text_, done_);
  EXPECT_EQ(ran_, (Ran{{0, {10, 100}}, {1, {20, 120}}}));
}

TEST_F(ToldElsewhere, OneWhoseLaunchIsMissingTakesNoOthersKernel) {
  launch(10, 1);
  told(12, 0, 1);
  told(14, 1, 2);  // its launch is not here
  kernel(100, 10);
  join_.settle(text_, done_);
  EXPECT_EQ(ran_[0], (std::pair<uint64_t, uint64_t>{10, 100}));
  EXPECT_EQ(join_.giveUp(text_, done_), 1u);
  EXPECT_EQ(ran_[1], (std::pair<uint64_t, uint64_t>{14, 0}));
}

TEST_F(ToldElsewhere, WhatBeganBeforeTheRecordingIsNotMissingInIt) {
  // The kernel of the first was overwritten before anybody read it.
  launch(10, 1);
  told(11, 0, 1);
  launch(20, 2);
  told(21, 1, 2);
  kernel(100, 20);
  join_.counted_from = 15;
  join_.settle(text_, done_);
  EXPECT_EQ(join_.lost, 0u);
  // Of what belongs to the recording it is told.
  launch(130, 3);
  told(131, 2, 3);
  launch(140, 4);
  told(141, 3, 4);
  kernel(200, 140);
  join_.settle(text_, done_);
  EXPECT_EQ(join_.lost, 1u);
  EXPECT_EQ(ran_[2], (std::pair<uint64_t, uint64_t>{130, 0}));
}

/// One graph with an all-reduce and an all-gather, launched again and again, without launch calls.
class GraphReplays : public ::testing::Test {
 protected:
  void launch(uint64_t at, uint64_t number, uint32_t exec = 1) {
    for (uint32_t part = 0; part < 2; ++part) {
      join_.launch(1, {.start = at, .end = at, .stream = 7, .graph = true, .exec = exec, .part = part, .parts = 2}, 0,
                   done_);
      join_.operation(1, {.function = 1 + part, .start = at, .sequence = number + part}, 0, done_);
    }
  }
  void kernel(uint64_t at, uint32_t part, uint32_t correlation) {
    join_.kernel({.name = 3 + part,
                  .start = at,
                  .end = at + 5,
                  .stream = 9,
                  .correlation = correlation,
                  .graph = 4,
                  .graph_node = 10 + part},
                 0, text_, done_);
  }
  std::vector<uint64_t> inFlight() {
    std::vector<uint64_t> all;
    for (const auto& f : join_.replaysInFlight(text_)) all.push_back(f.operation->record.sequence);
    return all;
  }
  using Numbers = std::vector<uint64_t>;

  NcclJoin join_;
  std::map<uint64_t, uint64_t> ended_;  // number → start
  NcclJoin::Done done_ = [this](const NcclJoin::Operation& o, const ring::KernelRecord* k) {
    if (k) ended_[o.record.sequence] = k->start;
  };
  NcclJoin::Text text_ = [](uint32_t id) {
    constexpr std::string_view kTexts[] = {"", "AllReduce", "AllGather", "ncclDevKernel_AllReduce",
                                           "ncclDevKernel_AllGather"};
    return kTexts[id];
  };
};

TEST_F(GraphReplays, AreInFlightUntilTheGraphEnds) {
  launch(10, 0);
  EXPECT_EQ(inFlight(), Numbers{}) << "nobody knows whether its end would be seen";
  join_.graph({.start = 12, .end = 30, .stream = 7, .correlation = 1, .graph = 4}, 0);
  join_.settle(text_, done_);
  EXPECT_EQ(ended_, (std::map<uint64_t, uint64_t>{{0, 30}, {1, 30}}));
  launch(40, 2);
  launch(50, 4);
  EXPECT_EQ(inFlight(), (Numbers{2, 3, 4, 5}));
  join_.graph({.start = 55, .end = 60, .stream = 7, .correlation = 2, .graph = 4}, 0);
  EXPECT_EQ(inFlight(), (Numbers{4, 5})) << "also before it is joined";
  launch(70, 6, 2);
  EXPECT_EQ(inFlight(), (Numbers{4, 5})) << "another graph";
}

TEST_F(GraphReplays, AreInFlightOneByOneWhereKernelsAreSeen) {
  launch(10, 0);
  kernel(20, 1, 1), kernel(12, 0, 1);
  join_.settle(text_, done_);
  EXPECT_EQ(ended_, (std::map<uint64_t, uint64_t>{{0, 12}, {1, 20}}));
  launch(40, 2);
  kernel(42, 0, 2);
  join_.pass(1, text_, done_);
  EXPECT_EQ(inFlight(), (Numbers{3}));
  EXPECT_EQ(join_.giveUp(text_, done_), 1u);
  EXPECT_EQ(ended_[2], 42u);
  EXPECT_EQ(join_.graphs.lost, 0u);
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
