// Who sends how much to whom, from the operations ranks took part in and the algorithm that ran.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tracesmith/common/export.hpp"

namespace tracesmith::analysis {

/// One rank's part in one operation.
struct CommOperation {
  std::string op;    ///< all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, send, recv
  std::string algo;  ///< ring, tree, nvls, …; empty: NCCL's usual one
  uint64_t comm = 0, seq = 0;
  uint32_t rank = 0, world_size = 0;
  uint64_t bytes = 0;  ///< message of this rank
  int64_t start_ns = 0, end_ns = 0;
  std::optional<int32_t> peer;  ///< of a send or receive, or root; empty: none, or not known
};

class TRACESMITH_API CommMatrix {
 public:
  void add(const CommOperation& operation);

  struct Cells {
    std::vector<std::vector<uint64_t>> bytes, count;
    std::vector<std::vector<double>> avg_latency;  ///< µs of the transfer; 0 where nothing was sent
    uint32_t world_size = 0;
  };
  Cells cells() const;

  /// ring, tree, butterfly, all_to_all or custom: from which pairs have traffic.
  std::string pattern() const;

  /// A link whose transfers are long against those of its peers, or against its own past.
  struct Slow {
    uint32_t rank_a, rank_b;
    double utilization;  ///< of the bandwidth its peers (or it itself, before) reach
    std::string reason;
  };
  std::vector<Slow> bottlenecks() const;

  struct Load {
    uint32_t rank;
    double deviation;  ///< of its time in communication from the average: −0.2: a fifth less. The others wait for it
    uint64_t total_bytes, total_time_ns;
  };
  std::vector<Load> loads() const;  ///< by rank

 private:
  struct TRACESMITH_LOCAL Transfer {
    std::vector<CommOperation> parts;
    int64_t ns() const;
  };
  std::vector<Transfer> transfers() const;
  std::vector<CommOperation> operations_;
  uint32_t world_size_ = 0;
};

/// A matrix of bytes in shades, at most 32 cells a side: larger ones are put together in squares.
TRACESMITH_API std::string matrixAscii(const std::vector<std::vector<uint64_t>>& bytes);
/// {"world_size", "max_bytes", "bytes", "count", "avg_latency_us"}: arrays of rows.
TRACESMITH_API std::string matrixHeatmapJson(const CommMatrix::Cells& cells);

}  // namespace tracesmith::analysis
