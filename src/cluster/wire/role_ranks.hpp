// Processes of different roles that have the same rank on different nodes, told apart when their segments become one
// trace.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "tracesmith/common/status.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cluster {

/// Roles may each count their ranks from 0. Who came first keeps its rank; the process of another role is known by its
/// process id, as it is on one node. What was decided once stays.
class RoleRanks {
 public:
  /// Looks at the processes of a segment, which is of one node.
  Status look(const trace::Reader& reader, const std::string& node);
  /// Whether rows of a table in this segment may be of a process that has lost its rank.
  bool changes(const trace::TableInfo& table) const { return !pids_.empty() && table.find("rank") >= 0; }
  /// Takes the rank from such a row; `slots`: by column.
  void apply(const trace::TableInfo& table, int64_t* slots) const;

 private:
  using Process = std::pair<std::string, int64_t>;  // node and id
  struct Owner {
    Process process;
    std::string role;
  };
  std::map<int64_t, Owner> owners_;  // by rank
  std::set<Process> without_;        // processes that have lost their rank
  std::set<int64_t> pids_, ranks_;   // those in this segment; ranks that no other process in it has
};

}  // namespace tracesmith::cluster
