// Whom a command that looks at running processes is about: this machine, an agent's, or those of a cluster.
#pragma once

#include <string>

#include "cli/cluster.hpp"
#include "hardware/sampler.hpp"
#include "model/travel.hpp"

namespace tracesmith::cli {

/// -t, and what reaching it takes.
struct Target : ClientCommand {
  /// What the text means.
  struct Meaning {
    enum class Kind { machine, process, agent, rank, node, cluster } kind = Kind::machine;
    int64_t number = 0;  ///< of a process or rank
    std::string name;    ///< of a node, address of an agent
  };

  std::string text;  ///< as it was given; empty: this machine
  hardware::Places places;

  void add(Command& command);
  /// Whether the text can be understood.
  Status check() const;
  Result<Meaning> meaning() const;
  bool local() const;
  /// What `query` asks, with what the target adds to it. Fails if nobody could be asked; nodes that did not answer are
  /// in the answer.
  Result<model::ClusterProcesses> ask(model::ProcessQuery query) const;
};

/// Nodes that did not answer, as warnings.
void warnOfMissing(const model::ClusterProcesses& answer);

}  // namespace tracesmith::cli
