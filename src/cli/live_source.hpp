// Where `tracesmith query -t TARGET` and `cluster query` get the tables of what runs now: from this machine, an agent
// or the nodes of a cluster.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cli/target.hpp"
#include "model/live.hpp"

namespace tracesmith::cli {

/// Thread safe.
class LiveSource {
 public:
  /// `strict`: rows that are not all there are a failure.
  LiveSource(const Target& target, bool strict) : target_(target), strict_(strict) {}

  /// All tables of one statement show the same moment; the next one looks again.
  void startStatement();
  /// Asks whom the target names.
  Result<std::vector<model::LiveCells>> rows(const std::string& table);
  /// Who did not answer the last statement, and what could not be read.
  std::vector<std::string> problems() const;

 private:
  using Rows = std::vector<model::LiveCells>;
  Result<const model::ClusterProcesses*> processes(bool stacks);
  Result<Rows> processRows();
  Result<Rows> threadRows();
  Result<Rows> frameRows();
  Result<Rows> operationRows();
  Result<Rows> nodeRows();
  Result<Rows> variableRows();
  Rows operationsHere() const;
  Result<Rows> operationsOfCluster();

  const Target& target_;
  const bool strict_;
  mutable std::mutex mutex_;  // guards what follows
  std::optional<model::ClusterProcesses> listed_, stacks_;
  std::map<std::string, Rows> rows_;  // by table
  std::vector<std::string> problems_;
};

}  // namespace tracesmith::cli
