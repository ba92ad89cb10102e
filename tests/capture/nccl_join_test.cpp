// Which kernels say something about one peer.
#include "capture/collect/nccl_join.hpp"

#include <gtest/gtest.h>

namespace tracesmith::capture {
namespace {

using ring::Kind;
using ring::Record;

/// One launch on a stream with sends and receives to these peers, then its kernel: whether it is told as mixed.
std::vector<bool> mixed(const std::vector<int>& peers) {
  NcclJoin join;
  std::vector<bool> out;
  auto done = [&](const NcclJoin::Operation& o, const Record*) { out.push_back(o.mixed); };
  Record launch{};
  launch.kind = Kind::nccl_launch;
  launch.stream = 7;
  launch.start = 10;
  launch.end = 11;
  join.launch(1, launch);
  for (int peer : peers) {
    Record operation{};
    operation.kind = Kind::p2p;
    operation.device = static_cast<uint16_t>(peer);
    operation.start = 10;
    join.operation(1, operation, 0, done);
  }
  Record kernel{};
  kernel.kind = Kind::kernel;
  kernel.stream = 7;
  kernel.start = 20;
  kernel.end = 30;
  join.kernel(
      kernel, [](uint32_t) { return std::string_view("ncclDevKernel_SendRecv"); }, done);
  return out;
}

TEST(NcclJoin, AKernelForSeveralPeersIsToldAsSuch) {
  EXPECT_EQ(mixed({3}), (std::vector<bool>{false}));
  EXPECT_EQ(mixed({3, 3}), (std::vector<bool>{false, false})) << "a send and a receive";
  EXPECT_EQ(mixed({3, 5, 3}), (std::vector<bool>{true, true, true}));
}

}  // namespace
}  // namespace tracesmith::capture
