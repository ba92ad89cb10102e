// Who sends how much to whom.
#include <gtest/gtest.h>

#include <numeric>

#include "tracesmith/cluster/comm_analysis.hpp"

namespace tracesmith::cluster {
namespace {

NCCLOperation operation(NCCLOpType type, uint32_t rank, uint32_t world, uint64_t seq, size_t bytes, Timestamp start,
                        Timestamp end, std::optional<int32_t> peer = {}, uint64_t comm = 1) {
  NCCLOperation o;
  o.op_type = type;
  o.rank = rank;
  o.world_size = world;
  o.op_id = seq;
  o.data_size = bytes;
  o.start_time = start;
  o.end_time = end;
  o.peer_rank = peer;
  o.comm_id = comm;
  return o;
}

TEST(CommAnalysis, ARingGoesToTheNeighbourOnly) {
  CommAnalysis a;
  for (uint32_t r = 0; r < 4; ++r) a.addOperations({operation(NCCLOpType::AllReduce, r, 4, 0, 4000, 100 + r, 10'103)});
  const CommAnalysis::CommMatrix m = a.getCommMatrix();
  ASSERT_EQ(m.world_size, 4u);
  for (size_t i = 0; i < 4; ++i)
    for (size_t k = 0; k < 4; ++k) EXPECT_EQ(m.bytes[i][k], k == (i + 1) % 4 ? 2u * 3 * 4000 / 4 : 0u);
  EXPECT_EQ(m.count[0][1], 1u);
  EXPECT_DOUBLE_EQ(m.avg_latency[3][0], 10) << "from the last arrival";
  EXPECT_EQ(a.detectPattern(), CommAnalysis::CommPattern::Ring);
}

TEST(CommAnalysis, AllToAllAndPairsAreTold) {
  CommAnalysis a;
  for (uint32_t r = 0; r < 4; ++r) a.addOperations({operation(NCCLOpType::AllToAll, r, 4, 0, 4000, 0, 100)});
  EXPECT_EQ(a.getCommMatrix().bytes[2][0], 1000u);
  EXPECT_EQ(a.detectPattern(), CommAnalysis::CommPattern::AllToAll);

  CommAnalysis butterfly;  // recursive doubling over 8 ranks
  for (uint32_t bit = 1; bit < 8; bit *= 2)
    for (uint32_t r = 0; r < 8; ++r)
      butterfly.addOperations({operation(NCCLOpType::Send, r, 8, bit, 10, 0, 100, static_cast<int32_t>(r ^ bit))});
  EXPECT_EQ(butterfly.detectPattern(), CommAnalysis::CommPattern::Butterfly);

  CommAnalysis pipeline;
  for (uint32_t r = 0; r + 1 < 8; ++r) {
    pipeline.addOperations({operation(NCCLOpType::Send, r, 8, r, 500, 0, 100, static_cast<int32_t>(r + 1)),
                            operation(NCCLOpType::Recv, r + 1, 8, r, 500, 50, 100, static_cast<int32_t>(r))});
  }
  EXPECT_EQ(pipeline.getCommMatrix().bytes[3][4], 500u) << "a send and its receive count once";
  EXPECT_EQ(pipeline.detectPattern(), CommAnalysis::CommPattern::Custom);
}

TEST(CommAnalysis, ASlowLinkStandsOutAgainstPeersAndPast) {
  CommAnalysis peers, past;
  for (uint64_t seq = 0; seq < 20; ++seq)
    for (uint32_t r = 0; r < 4; ++r) {
      const Timestamp start = seq * 1000 + r;
      peers.addOperations({operation(NCCLOpType::Send, r, 5, seq, 64, start, start + (r == 2 ? 300 : 100),
                                     static_cast<int32_t>(r + 1))});
    }
  auto slow = peers.findBottlenecks();
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].rank_a, 2u);
  EXPECT_EQ(slow[0].rank_b, 3u);
  EXPECT_NEAR(slow[0].utilization, 1.0 / 3, 0.01);
  EXPECT_NE(slow[0].reason.find("peers"), std::string::npos);

  for (uint64_t seq = 0; seq < 20; ++seq)
    past.addOperations(
        {operation(NCCLOpType::Send, 0, 2, seq, 64, seq * 1000, seq * 1000 + (seq < 10 ? 100 : 200), 1)});
  slow = past.findBottlenecks();
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_NE(slow[0].reason.find("before"), std::string::npos);
}

TEST(CommAnalysis, TheRankOthersWaitForSpendsLeastTime) {
  CommAnalysis a;
  for (uint64_t seq = 0; seq < 10; ++seq)
    for (uint32_t r = 0; r < 4; ++r)
      a.addOperations(
          {operation(NCCLOpType::AllReduce, r, 4, seq, 64, seq * 1000 + (r == 1 ? 300 : 0), seq * 1000 + 400)});
  const auto loads = a.analyzeLoadBalance();
  ASSERT_EQ(loads.size(), 4u);
  EXPECT_NEAR(loads[1].deviation, 100.0 / 325 - 1, 0.001);
  EXPECT_NEAR(loads[0].deviation, 400.0 / 325 - 1, 0.001);
  EXPECT_EQ(loads[0].total_time_ns, 4000u);
  EXPECT_EQ(loads[0].total_bytes, 10u * 2 * 3 * 64 / 4);
}

TEST(CommAnalysis, DrawsItself) {
  CommAnalysis a;
  EXPECT_EQ(a.matrixToASCII(), "no communication\n");
  EXPECT_TRUE(a.findBottlenecks().empty());
  for (uint32_t r = 0; r < 100; ++r) a.addOperations({operation(NCCLOpType::AllReduce, r, 100, 0, 1 << 20, 0, 1000)});
  const std::string text = a.matrixToASCII();
  EXPECT_NE(text.find("4 × 4 ranks"), std::string::npos) << text;
  EXPECT_NE(text.find("█"), std::string::npos);
  EXPECT_NE(a.matrixToHeatmapJSON().find("\"world_size\":100"), std::string::npos);
}

TEST(CommAnalysis, OperationsInFlightHaveNoTime) {
  CommAnalysis a;
  NCCLOperation o = operation(NCCLOpType::AllReduce, 0, 2, 0, 64, 0, 0);
  o.in_flight = true;
  a.addOperations({o});
  EXPECT_EQ(a.getCommMatrix().world_size, 0u);
}

}  // namespace
}  // namespace tracesmith::cluster
