// Where the ranks that hold up a job are in their programs: what their nodes say when they are asked.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cluster/api.hpp"

namespace tracesmith::cluster {

/// Not thread safe.
class HangStacks {
 public:
  /// What to ask now: of new culprits at once, of the same ones from time to time. Nothing while the job goes on.
  std::optional<ProcessQuery> question(const HangVerdict& verdict, int64_t now_ns);
  void take(const ClusterProcesses& answer);
  /// Adds to the culprits what is known of them.
  void add(HangVerdict& verdict) const;

 private:
  using Who = std::pair<std::string, int64_t>;  // node and rank
  std::map<Who, int64_t> asked_;                // when
  std::map<Who, int64_t> pids_;                 // as far as they are known: other jobs may have the same ranks
  std::map<Who, Stacks> stacks_;
};

/// ". Rank 3 is in DataLoader.__next__, called from train.py:212" of the first culprit of whom it is known; else empty.
std::string whereSentence(const HangVerdict& verdict);

}  // namespace tracesmith::cluster
