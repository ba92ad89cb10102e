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

}  // namespace
}  // namespace tracesmith::capture
