// Communication of a job from its NCCL operations: who sends how much to whom, in which pattern, over which slow links.
#pragma once

#include <string>
#include <vector>

#include "tracesmith/analysis/comm_matrix.hpp"
#include "tracesmith/capture/nccl_tracker.hpp"

namespace tracesmith::cluster {

class CommAnalysis {
 public:
  /// Operations of any number of ranks. Those in flight have no time yet and are left out; groups are no operations.
  void addOperations(const std::vector<NCCLOperation>& operations) {
    for (const NCCLOperation& o : operations) {
      if (o.op_type >= NCCLOpType::GroupStart || o.in_flight || o.end_time == 0) continue;
      analysis::CommOperation c;
      c.op = operationName(o.op_type);
      c.algo = o.algo;
      c.comm = o.comm_id;
      c.seq = o.op_id;
      c.rank = o.rank;
      c.world_size = o.world_size;
      c.bytes = o.data_size;
      c.start_ns = static_cast<int64_t>(o.start_time);
      c.end_ns = static_cast<int64_t>(o.end_time);
      c.peer = o.peer_rank;
      matrix_.add(c);
    }
  }

  /// Bytes, operations and µs from rank (row) to rank (column), by the algorithm NCCL uses, not spread over all pairs.
  using CommMatrix = analysis::CommMatrix::Cells;
  CommMatrix getCommMatrix() const { return matrix_.cells(); }

  enum class CommPattern { AllToAll, Ring, Tree, Butterfly, Custom };
  CommPattern detectPattern() const {
    const std::string pattern = matrix_.pattern();
    return pattern == "all_to_all"  ? CommPattern::AllToAll
           : pattern == "ring"      ? CommPattern::Ring
           : pattern == "tree"      ? CommPattern::Tree
           : pattern == "butterfly" ? CommPattern::Butterfly
                                    : CommPattern::Custom;
  }

  using Bottleneck = analysis::CommMatrix::Slow;
  std::vector<Bottleneck> findBottlenecks() const { return matrix_.bottlenecks(); }

  using LoadImbalance = analysis::CommMatrix::Load;
  std::vector<LoadImbalance> analyzeLoadBalance() const { return matrix_.loads(); }

  std::string matrixToASCII() const { return analysis::matrixAscii(matrix_.cells().bytes); }
  std::string matrixToHeatmapJSON() const { return analysis::matrixHeatmapJson(matrix_.cells()); }

 private:
  analysis::CommMatrix matrix_;
};

}  // namespace tracesmith::cluster
