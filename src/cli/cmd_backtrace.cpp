// tracesmith backtrace: what running processes are doing, read from outside.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/stack_text.hpp"
#include "cli/target.hpp"
#include "cli/terminal.hpp"
#include "model/travel_json.hpp"
#include "process/backtrace.hpp"

namespace tracesmith::cli {
namespace {

using namespace process;

struct Options : Target {
  std::vector<int64_t> pids;
  int64_t rank = -1;
  std::string job;
  bool all = false;
  bool native = false;
  bool locals = false;
  bool sources = false;
};

std::string groupsJson(const std::vector<Stacks>& processes, const model::ClusterProcesses& answer, uint64_t refused) {
  std::string out;
  JsonWriter json(out);
  json.beginObject().key("groups").beginArray();
  for (const StackGroup& g : groupStacks(processes)) {
    json.beginObject().field("what", g.what).field("own", g.own).key("place");
    g.place.empty() ? json.null() : json.value(g.place);
    json.key("job");
    const std::string& job = processes[g.members[0]].job;
    job.empty() ? json.null() : json.value(job);
    json.key("pids").beginArray();
    for (const size_t m : g.members) json.value(processes[m].pid);
    json.endArray().key("ranks").beginArray();
    for (const size_t m : g.members) processes[m].rank ? json.value(*processes[m].rank) : json.null();
    json.endArray().endObject();
  }
  json.endArray().key("processes").beginArray();
  for (const Stacks& s : processes) model::writeJson(json, s);
  json.endArray().field("not_permitted", refused).key("problems").beginArray();
  for (const model::NodeProcesses& n : answer.nodes)
    if (!n.problem.empty()) json.beginObject().field("node", n.node).field("problem", n.problem).endObject();
  json.endArray().endObject();
  return out;
}

/// "7, 8 and 9".
std::string namesText(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + printable(names[i]);
  return out;
}

/// Why no process is left of those that were asked for.
Status nobody(const Options& o, const std::vector<std::string>& jobs, uint64_t refused) {
  const bool one_rank = o.rank >= 0 || o.text.starts_with("rank:");
  std::string what = one_rank ? "no process of rank " + (o.rank >= 0 ? std::to_string(o.rank) : o.text.substr(5))
                              : std::string("no process");
  if (!o.job.empty()) what += " of job " + o.job;
  what += o.local() ? " on this machine" : " in the cluster";
  if (refused > 0) what += " that may be read: run as root";
  if (!o.job.empty() && !jobs.empty()) what += "; there are those of " + namesText(jobs);
  return Status::notFound(what);
}

int runMany(const Options& o) {
  model::ProcessQuery query;
  query.stacks = true;
  query.native = o.native;
  query.locals = o.locals;
  query.pids = o.pids;
  // Of a whole cluster everything would be too much to send and to read.
  query.brief = !o.local() && (o.all || o.text == "all" || o.text.starts_with("node:"));
  if (o.rank >= 0) query.ranks.push_back(o.rank);
  const Result<model::ClusterProcesses> answer = o.ask(query);
  if (!answer) return fail(answer.status());
  std::vector<Stacks> processes;
  uint64_t refused = 0;
  for (const model::NodeProcesses& node : answer->nodes) {
    processes.insert(processes.end(), node.stacks.begin(), node.stacks.end());
    refused += node.not_permitted;
  }
  if (!o.json) warnOfMissing(*answer);
  const std::vector<std::string> jobs = jobsOf(processes);
  if (!o.job.empty()) std::erase_if(processes, [&](const Stacks& s) { return s.job != o.job; });
  if (processes.empty() && (o.rank >= 0 || o.text.starts_with("rank:") || !o.job.empty()))
    return fail(nobody(o, jobs, refused));
  if (o.json) {
    std::printf("%s\n", groupsJson(processes, *answer, refused).c_str());
    return 0;
  }
  if (processes.size() == 1 && !o.all && !query.brief) {
    printStacks(processes[0]);
    return 0;
  }
  if (processes.empty()) std::printf("no processes of Python or under the probe\n");
  printGroups(processes);
  if (o.job.empty() && jobs.size() > 1)
    std::printf("\nnote: these are processes of %zu jobs: %s; --job shows those of one\n", jobs.size(),
                namesText(jobs).c_str());
  if (refused > 0)
    std::printf("\nnote: %llu more Python %s not be read: run as root\n", static_cast<unsigned long long>(refused),
                refused == 1 ? "process may" : "processes may");
  return 0;
}

int runOne(const Options& o, int64_t pid) {
  const Result<Stacks> stacks =
      backtrace(static_cast<pid_t>(pid), {.native = o.native || o.sources, .sources = o.sources, .locals = o.locals});
  if (!stacks) return fail(stacks.status());
  if (o.json)
    std::printf("%s\n", model::toJson(*stacks).c_str());
  else
    printStacks(*stacks);
  return 0;
}

Status check(const Options& o) {
  TS_TRY(o.check());
  if (o.pids.empty() && !o.all && o.rank < 0 && o.text.empty())
    return Status::invalid("name a process, --rank, --all or a target");
  int64_t target = 0;
  if (!o.job.empty() && (parseInt(o.text, target) || o.pids.size() == 1))
    return Status::invalid("--job chooses among several processes: name no process");
  if (o.sources && o.pids.size() != 1 && !(o.pids.empty() && parseInt(o.text, target)))
    return Status::invalid("--sources is for one process of this machine");
  return {};
}

int run(const Options& o) {
  int64_t pid = 0;
  if (o.local() && o.pids.empty() && parseInt(o.text, pid)) return runOne(o, pid);
  return o.local() && o.pids.size() == 1 ? runOne(o, o.pids[0]) : runMany(o);
}

}  // namespace

void addBacktrace(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("backtrace", "Show what every thread of a running process is doing");
  Option pids =
      command.positional("PID", o->pids, "The process; of several, equal stacks are shown once").check(positive());
  Option all = command.flag("--all", o->all, "All processes of Python and under the probe that you may read");
  command.option("--rank", o->rank, "The processes of this rank").check(nonNegative()).excludes(pids).excludes(all);
  all.excludes(pids);
  command.option("--job", o->job, "Only processes of this job, as `tracesmith ps` names it").type("ID").excludes(pids);
  command.flag("--native", o->native, "Also native frames; stops each thread for less than a millisecond");
  command.flag(
      "--sources", o->sources,
      "As --native, with source lines and inlined functions where debug information is installed; takes a while");
  command.flag("--locals", o->locals,
               "Also the variables of Python's functions; from other machines only for admins, where agents allow it");
  o->add(command);
  command.footer(
      "The process is not stopped and needs no preparation: its memory is read from outside. This also works while it\n"
      "holds the GIL, hangs in a driver call or is stopped. Python 3.8 to 3.14. A process without Python is read as "
      "with\n--native. Your user must be the process's, or root; with -t, the agent's.\n\n"
      "Examples:  tracesmith backtrace --native $(pgrep -f train.py | head -1)\n"
      "           tracesmith backtrace --locals 4100\n"
      "           tracesmith backtrace --all\n"
      "           tracesmith backtrace -t rank:3 --job 4711 --master head:50051");
  command.run([o]() { return check(*o); }, [o] { return run(*o); });
}

}  // namespace tracesmith::cli
