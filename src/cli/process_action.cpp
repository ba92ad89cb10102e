#include "cli/process_action.hpp"

#include <cstdio>

#include "base/text.hpp"
#include "cli/terminal.hpp"
#include "model/travel_json.hpp"

namespace tracesmith::cli {

using model::ActionOutcome;

ProcessActionCommand::ProcessActionCommand(const char* name, double timeout_s, Print print, Json form)
    : print_(print), json_(form) {
  action.name = name;
  action.timeout_s = timeout_s;
}

void ProcessActionCommand::addTo(Command& command) {
  command.flag("--despite-seccomp", action.despite_seccomp,
               "Also where a seccomp filter could end the process for loading a library");
  Target::add(command);
}

Status ProcessActionCommand::check() const {
  TS_TRY(Target::check());
  if (pid == 0 && (text.empty() || text == "here")) return Status::invalid("name a process, or a target with -t");
  return {};
}

std::string processText(const std::string& node, const ActionOutcome& done) {
  return "process " + std::to_string(done.pid) + (node.empty() ? "" : " on " + printable(node)) +
         (done.rank ? ", rank " + std::to_string(*done.rank) : "");
}

int ProcessActionCommand::run() const {
  model::ProcessQuery query;
  query.action = action;
  if (pid > 0) query.pids.push_back(pid);
  const Result<model::ClusterProcesses> answer = ask(query);
  if (!answer) return fail(answer.status());
  int rc = 0;
  size_t count = 0;
  const bool one = local() && answer->nodes[0].outcomes.size() == 1;
  for (const model::NodeProcesses& node : answer->nodes) {
    count += node.outcomes.size();
    if (!node.problem.empty())
      rc = fail(Status::invalid((node.node.empty() ? "" : node.node + ": ") + printable(node.problem)));
    for (const ActionOutcome& done : node.outcomes) {
      if (!done.problem.empty())
        rc = fail(Status::invalid((one ? "" : processText(node.node, done) + ": ") + printable(done.problem)));
      else if (!json)
        print_(*this, node.node, done);
      if (!done.exception.empty()) rc = 1;
    }
  }
  if (count == 0 && rc == 0) return fail(Status::notFound("no ranks of a job are there"));
  if (json && one && answer->nodes[0].outcomes[0].problem.empty())
    std::printf("%s\n", json_(*this, answer->nodes[0].outcomes[0]).c_str());
  else if (json && !local())
    std::printf("%s\n", model::toJson(*answer).c_str());
  return rc;
}

}  // namespace tracesmith::cli
