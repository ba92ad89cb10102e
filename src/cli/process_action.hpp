// Commands that do something to processes: of this machine, of an agent's, or of a cluster.
#pragma once

#include <string>

#include "cli/target.hpp"

namespace tracesmith::cli {

struct ProcessActionCommand : Target {
  using Print = void (*)(const ProcessActionCommand& command, const std::string& node,
                         const model::ActionOutcome& done);
  using Json = std::string (*)(const ProcessActionCommand& command, const model::ActionOutcome& done);
  ProcessActionCommand(const char* name, double timeout_s, Print print, Json form);

  model::ProcessAction action;
  int64_t pid = 0;  ///< 0: the ranks of the target

  /// -t, what reaching it takes, and --despite-seccomp.
  void addTo(Command& command);
  Status check() const;
  int run() const;

 private:
  Print print_;
  Json json_;  ///< of one process of this machine
};

/// "process 4100 on n1, rank 3".
std::string processText(const std::string& node, const model::ActionOutcome& done);

}  // namespace tracesmith::cli
