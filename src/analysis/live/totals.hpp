// What ranks did since the master started, summed up from their reports: for counters that monitoring systems take.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/live/report.hpp"

namespace tracesmith::analysis::live {

struct OperationTotal {
  uint64_t count = 0;
  double bytes = 0, seconds = 0;  ///< of their messages; of their kernels
};

struct RankTotal {
  std::string node;
  int64_t pid = 0;
  int32_t rank = -1;
  std::string role;
  bool simulated = false;
  uint64_t steps = 0;
  double step_seconds = 0;
  std::optional<double> communication_seconds;  ///< of steps whose GPU work was recorded all the time; null: of none
  std::optional<double> last_step_seconds;
  std::map<std::string, OperationTotal> operations;
  int64_t seen_ns = 0;
};

/// How fast the ranks of a communicator move the message that it moves most of.
struct TransferRate {
  uint64_t comm = 0;
  std::string name, op;
  int32_t size = -1;
  bool simulated = false;
  double bytes = 0;    ///< of the message
  double seconds = 0;  ///< the shortest of any rank in the last half minute: who comes last does not wait
};

/// Not thread safe. Times are ns of one clock, the caller's.
class Totals {
 public:
  void take(const NodeReport& report, int64_t now_ns);
  void forget(const std::string& node);
  std::vector<RankTotal> ranks() const;
  std::vector<TransferRate> transfers(int64_t now_ns) const;

 private:
  using Key = std::pair<std::string, int64_t>;  // node, process id
  struct TransferKey {
    uint64_t comm;
    std::string op;
    int64_t bytes;
    auto operator<=>(const TransferKey&) const = default;
  };
  struct Transfer {
    std::string name;
    int32_t size = -1;
    bool simulated = false;
    int64_t window_ns = 0;                   // when the window began
    int64_t shortest_ns = 0, before_ns = 0;  // in this window, in the one before; 0: there was none
    double moved = 0;                        // bytes, in all
    int64_t seen_ns = 0;
  };
  void takeTransfers(const ProcessReport& process, RankTotal& total, int64_t now_ns);

  std::map<Key, RankTotal> ranks_;
  std::map<TransferKey, Transfer> transfers_;
};

}  // namespace tracesmith::analysis::live
