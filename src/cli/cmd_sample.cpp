// tracesmith sample: where running processes spend their time, by looking at their stacks many times a second.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/count.hpp"
#include "base/file.hpp"
#include "base/progress.hpp"
#include "base/text.hpp"
#include "capture/collect/collector.hpp"
#include "capture/collect/training_now.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/sample_print.hpp"
#include "cli/target.hpp"
#include "process/act.hpp"
#include "process/look.hpp"
#include "process/stack_rows.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cli {
namespace {

using namespace process;
using trace::FlameCaption;
using trace::FlameOptions;
using trace::FlameTree;
using trace::StackCounts;

struct Options : Target {
  std::vector<int64_t> pids, diff;
  int64_t rank = -1;
  std::string output, from, state;
  SamplingOptions sampling;
  bool all = false, force = false;
  FlameOptions flame;
};

enum class Form { none, svg, speedscope, collapsed, trace };

Form formOf(const std::string& path) {
  for (const auto& [ending, form] :
       {std::pair(".svg", Form::svg), std::pair(".json", Form::speedscope), std::pair(".txt", Form::collapsed),
        std::pair(".folded", Form::collapsed), std::pair(".sbt", Form::trace)})
    if (path.ends_with(ending)) return form;
  return Form::none;
}

std::atomic<bool> g_stop{false};  // Ctrl-C: what was sampled so far is kept

FlameCaption captionOf(const StackCounts& counts, const FlameTree& tree) {
  FlameCaption caption;
  caption.title = "Where the time goes";
  if (tree.compared)
    caption.title = "Rank " + std::to_string(tree.compared->first) + " (blue) and rank " +
                    std::to_string(tree.compared->second) + " (red)";
  else if (counts.processes.size() == 1 && !counts.processes[0].command.empty())
    caption.title = counts.processes[0].command.substr(0, 160);
  caption.subtitle = sampleText(counts);
  uint64_t missed = 0;
  for (const StackCounts::Process& p : counts.processes) missed += p.missed;
  if (missed > 0) caption.subtitle += ", " + humanCount(missed) + " looks missed";
  if (counts.simulated) caption.subtitle += ", simulated data";
  if (tree.idle_threads > 0) caption.note = counted(tree.idle_threads, "idle thread") + " left out";
  return caption;
}

Status writeDrawing(const std::string& path, const StackCounts& counts, const FlameTree& tree) {
  const FlameCaption caption = captionOf(counts, tree);
  const Form form = formOf(path);
  const std::string text = form == Form::svg          ? trace::flameSvg(tree, caption)
                           : form == Form::speedscope ? trace::speedscope(tree, caption)
                                                      : trace::collapsedStacks(tree);
  Result<OutputFile> file = OutputFile::create(path);
  if (!file) return file.status();
  TS_TRY(file->write(text));
  return file->commit();
}

/// Draws and prints what was counted.
int finish(const Options& o, const StackCounts& counts, const Sampling* sampling, uint64_t refused) {
  const Result<FlameTree> tree = trace::flameTree(counts, o.flame);
  if (!tree) return fail(tree.status());
  SampleReport report{counts, *tree, sampling, {}, refused};
  const bool draws = !o.output.empty() && formOf(o.output) != Form::trace;
  if (draws)
    if (Status s = writeDrawing(o.output, counts, *tree); !s) return fail(s);
  if (!o.output.empty()) report.outputs.push_back(o.output);
  if (counts.simulated && !o.json) warn("this is simulated data, not a measurement");
  if (o.json)
    std::printf("%s\n", sampleJson(report).c_str());
  else
    printSample(report, o.output.empty());
  return 0;
}

int fromTrace(const Options& o) {
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(o.from);
  if (!reader) return fail(reader.status());
  const Result<StackCounts> counts = trace::readStacks(**reader);
  if (!counts) return fail(counts.status());
  return finish(o, *counts, nullptr, 0);
}

/// Opens the processes that were asked for.
Status addProcesses(const Options& o, const std::string& node, Sampling& sampling, size_t& refused) {
  model::ProcessQuery query;
  query.stacks = true;
  query.pids = o.pids;
  int64_t pid = 0;
  if (parseInt(o.text, pid)) query.pids.push_back(pid);
  if (o.rank >= 0) query.ranks = {o.rank};
  if (o.rank < 0 && query.pids.empty()) query.ranks = o.diff;
  capture::ProcessesNow now;
  const std::vector<capture::ProcessNow> recorded = now.read();
  const std::vector<pid_t> pids = chosen("", query, recorded, refused);
  std::vector<Status> failures;
  for (const pid_t p : pids) {
    std::optional<int64_t> rank;
    for (const capture::ProcessNow& r : recorded)
      if (r.pid == p && r.rank >= 0 && !r.simulated) rank = r.rank;
    if (Status s = sampling.add(p, rank, node); !s) failures.push_back(s);
  }
  if (pids.empty())
    return Status::notFound((query.ranks.empty()
                                 ? "no processes of Python or under the probe on this machine"
                                 : "no process of rank " + std::to_string(query.ranks[0]) + " on this machine") +
                            std::string(refused > 0 ? " that may be read: run as root" : ""));
  if (failures.size() == pids.size()) return failures[0];
  for (const Status& s : failures) warn(s.message());
  for (const int64_t r : o.diff)
    if (std::none_of(sampling.counts().processes.begin(), sampling.counts().processes.end(),
                     [&](const StackCounts::Process& p) { return p.rank == r; }))
      return Status::notFound("no process of rank " + std::to_string(r) + " to compare" +
                              (refused > 0 ? " that may be read: run as root" : " on this machine"));
  return {};
}

Status nothingSampled(const Sampling& sampling) {
  for (const SampledProcess& p : sampling.processes()) {
    if (p.ended) return Status::notFound("the process ended before it could be sampled");
    if (!p.note.empty()) return Status::unavailable(p.note);
  }
  return Status::unavailable("no stack could be read: the interpreter starts, ends, or its memory is damaged");
}

int sample(const Options& o) {
  for (const int n : {SIGINT, SIGTERM}) ::signal(n, [](int) { g_stop = true; });
  Sampling sampling(o.sampling);
  size_t refused = 0;
  const std::string node = capture::hostName();
  if (Status s = addProcesses(o, node, sampling, refused); !s) return fail(s);
  std::unique_ptr<trace::Writer> writer;
  std::unique_ptr<StackRows> rows;
  if (formOf(o.output) == Form::trace) {
    Result<std::unique_ptr<trace::Writer>> created = trace::Writer::create(o.output);
    if (!created) return fail(created.status());
    writer = std::move(*created);
    rows = std::make_unique<StackRows>(*writer, sampling.counts());
    if (Status s = rows->begin(node); !s) return fail(s);
  }
  {
    Progress progress("sampling");
    if (Status s = sampling.run(g_stop, rows.get(),
                                [&](double part) { progress.update(static_cast<uint64_t>(part * 1000), 1000); });
        !s)
      return fail(s);
  }
  if (rows) {
    if (Status s = rows->finish(sampling, true); !s) return fail(s);
    rows.reset();
    if (Status s = writer->close(); !s) return fail(s);
  }
  if (sampling.counts().counts.empty()) return fail(nothingSampled(sampling));
  return finish(o, sampling.counts(), &sampling, refused);
}

/// A process of another machine, and what it did.
void addSampled(StackCounts& counts, const std::string& node, const model::SampledStacks& p) {
  StackCounts::Process process;
  process.node = node;
  process.command = p.command;
  process.rank = p.rank;
  process.pid = p.pid;
  process.looks = p.looks;
  process.missed = p.missed;
  counts.processes.push_back(std::move(process));
  std::map<std::pair<std::optional<int64_t>, std::string>, uint32_t> threads;
  for (const model::StackSamples& s : p.stacks) {
    const auto [at, added] = threads.try_emplace({s.tid, s.thread}, static_cast<uint32_t>(counts.threads.size()));
    if (added) counts.threads.push_back({counts.processes.size() - 1, s.tid, s.thread});
    StackCounts::Count& count = counts.counts[StackCounts::key(at->second, counts.table.parse(s.stack))];
    count.samples[StackCounts::on_cpu] += s.on_cpu;
    count.samples[StackCounts::waiting] += s.waiting;
    count.samples[StackCounts::unknown] += s.unknown;
  }
}

/// What agents sampled, for as long as they were asked to.
int sampleElsewhere(const Options& o) {
  model::ProcessQuery query;
  query.pids = o.pids;
  if (o.rank >= 0) query.ranks = {o.rank};
  if (o.rank < 0 && o.pids.empty()) query.ranks = o.diff;
  query.sample = model::SampleWish{o.sampling.seconds, o.sampling.rate, o.sampling.native};
  const Result<model::ClusterProcesses> answer = o.ask(query);
  if (!answer) return fail(answer.status());
  if (!o.json) warnOfMissing(*answer);
  StackCounts counts;
  counts.rate = o.sampling.rate;
  counts.seconds = o.sampling.seconds;
  uint64_t refused = 0;
  std::string problem;
  for (const model::NodeProcesses& node : answer->nodes) {
    refused += node.not_permitted;
    for (const model::SampledStacks& p : node.sampled) {
      if (!p.problem.empty()) problem = node.node + ": process " + std::to_string(p.pid) + ": " + p.problem;
      if (!p.problem.empty() && !o.json) warn(problem);
      if (!p.stacks.empty()) addSampled(counts, node.node, p);
    }
  }
  if (counts.counts.empty())
    return fail(Status::notFound(!problem.empty() ? problem
                                 : refused > 0    ? "no process there may be read: run the agent as root"
                                                  : "no process of Python or under the probe is there"));
  return finish(o, counts, nullptr, refused);
}

Status check(Options& o) {
  TS_TRY(o.Target::check());
  int64_t pid = 0;
  const bool pid_target = parseInt(o.text, pid);
  if (!o.local() && !o.from.empty()) return Status::invalid("--from draws a recorded trace, so there is no --target");
  if (!o.local() && formOf(o.output) == Form::trace)
    return Status::invalid(
        "a trace of other machines is made by `cluster record`: give -o a drawing's name, .svg for "
        "example");
  if (!o.local() && o.sampling.seconds > kMostSeconds)
    return Status::invalid("agents sample for a minute at most: give -d 60 or less");
  const bool some = !o.pids.empty() || o.all || o.rank >= 0 || !o.text.empty() || !o.diff.empty();
  if (o.from.empty() && !some) return Status::invalid("name a process, --rank or --all");
  if (!o.from.empty() && (!o.pids.empty() || o.all || pid_target))
    return Status::invalid("--from draws a recorded trace: choose with --rank, not by process");
  if (!o.diff.empty() && o.diff[0] == o.diff[1]) return Status::invalid("--diff needs two different ranks");
  if (!o.diff.empty() && o.rank >= 0) return Status::invalid("--diff names the ranks itself, without --rank");
  if (!o.output.empty() && formOf(o.output) == Form::none)
    return Status::invalid("the output must end in .svg, .speedscope.json, .json, .folded, .txt or .sbt");
  if (!o.from.empty() && formOf(o.output) == Form::trace)
    return Status::invalid("--from draws a recorded trace: give -o a drawing's name, .svg for example");
  if (!o.diff.empty()) o.flame.compare = {o.diff[0], o.diff[1]};
  if (o.rank >= 0) o.flame.ranks = {o.rank};
  if (o.state == "on-cpu") o.flame.only = StackCounts::on_cpu;
  if (o.state == "waiting") o.flame.only = StackCounts::waiting;
  return checkOutput(o.output, o.from.empty() ? std::vector<std::string>() : std::vector<std::string>{o.from}, o.force);
}

}  // namespace

void addSample(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("sample", "Show where running processes spend their time: flame graphs");
  Option pids = command.positional("PID", o->pids, "The processes").check(positive());
  Option all = command.flag("--all", o->all, "All processes of Python and under the probe that you may read");
  command.option("--rank", o->rank, "The processes of this rank").check(nonNegative()).excludes(pids).excludes(all);
  all.excludes(pids);
  command.option("-d,--duration", o->sampling.seconds, "For how long; Ctrl-C ends it earlier")
      .type("SECONDS")
      .check(range(0.01, 1e7))
      .showDefault();
  command.option("--rate", o->sampling.rate, "Looks a second").type("HZ").check(range(0.01, 1000.0)).showDefault();
  command.option("-o,--output", o->output, "By its ending: .svg (flame graph), .speedscope.json, .folded or .sbt")
      .type("FILE");
  command.flag("--native", o->sampling.native,
               "Also native frames; stops threads that run for less than a millisecond");
  command.option("--state", o->state, "Only samples of threads that ran, or that waited")
      .check(oneOf({"on-cpu", "waiting"}));
  command.flag("--idle", o->flame.idle, "Also threads that did nothing all the time");
  command.flag("--lines", o->flame.lines, "Tell the lines of a function apart");
  command.flag("--per-rank", o->flame.per_rank, "Keep the ranks (or processes) apart, instead of merging them");
  command.flag("--per-thread", o->flame.per_thread, "Keep the threads apart");
  command.option("--diff", o->diff, "Compare two ranks: what the second does more is red").words(2).type("RANK RANK");
  command.option("--from", o->from, "Draw a recorded trace instead").type("FILE.sbt");
  addForce(command, o->force);
  o->Target::add(command);
  command.footer(
      "The processes are not stopped and need no preparation: their memory is read from outside. Python 3.8 to 3.14. "
      "A\n"
      "process without Python is read as with --native. Your user must be the process's, or root; with -t, the "
      "agent's.\n\n"
      "Examples:  tracesmith sample $(pgrep -f train.py | head -1)\n"
      "           tracesmith sample --all -d 30 -o job.svg\n"
      "           tracesmith sample --diff 0 3 -o slow.svg\n"
      "           tracesmith sample -t all -d 30 --per-rank -o job.svg --master head:50051\n"
      "           tracesmith sample --all -o stacks.sbt && tracesmith sample --from stacks.sbt --rank 3 -o rank3.svg");
  command.run([o] { return check(*o); },
              [o] {
                if (!o->local()) return sampleElsewhere(*o);
                return o->from.empty() ? sample(*o) : fromTrace(*o);
              });
}

}  // namespace tracesmith::cli
