// Ranks of one job that do not use the same software.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/live/report.hpp"

namespace tracesmith::analysis::live {

/// Not thread safe.
class VersionWatch {
 public:
  /// What is installed on a node.
  void describe(const NodeDescription& node);
  void forget(const std::string& node);
  void take(const NodeReport& report, int64_t now_ns);
  /// Each difference of a job once. What is not known differs from nothing. Ranks that have just come are given some
  /// seconds, so that the others are in the sentence too.
  std::vector<Alert> look(int64_t now_ns);

 private:
  struct Installed {
    std::string driver, cuda, nccl;
  };
  struct Process {
    int32_t rank = -1;
    std::string torch, cuda, nccl;
    std::vector<uint64_t> comms;  // sorted
    bool operator==(const Process&) const = default;
  };
  struct Seen {
    Process process;
    int64_t since_ns = 0;        // that it is so
    std::set<std::string> told;  // "NCCL 2.21.5": what an alert about its job has named
  };
  using Key = std::pair<std::string, int64_t>;  // node, process id
  using Job = std::vector<std::map<Key, Seen>::iterator>;
  std::vector<Job> jobs();
  void lookAt(const Job& job, int64_t now_ns, std::vector<Alert>& alerts);

  std::map<std::string, Installed> nodes_;
  std::map<Key, Seen> processes_;  // those that run and have communicators
};

}  // namespace tracesmith::analysis::live
