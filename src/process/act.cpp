#include "process/act.hpp"

#include <algorithm>
#include <thread>

#include "base/library.hpp"
#include "base/parallel.hpp"
#include "base/text.hpp"
#include "process/attach.hpp"
#include "process/eval.hpp"
#include "process/sampling.hpp"

namespace tracesmith::process {
namespace {

using model::ActionOutcome;
using model::ProcessAction;

constexpr double kPatienceS = 12;  // to get into a process, beside what the code takes
constexpr size_t kAtATime = 16;

/// As the sitecustomize of `tracesmith run` does it, in a process that runs already. Says whether torch is there.
constexpr const char* kHook = R"(
exec('''
import importlib.util, os, sys
os.environ["TRACESMITH_PROBE"] = probe
if "_tracesmith_hooks" not in sys.modules:
    spec = importlib.util.spec_from_file_location("_tracesmith_hooks", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    module = importlib.util.module_from_spec(spec)
    sys.modules["_tracesmith_hooks"] = module
    spec.loader.exec_module(module)
    module.install(always=True)
''', {"folder": %FOLDER%, "probe": %PROBE%}) or ("torch" in __import__("sys").modules)
)";

void replace(std::string& text, const std::string& what, const std::string& with) {
  text.replace(text.find(what), what.size(), with);
}

EvalOptions evalOptions(const ProcessAction& action, const std::string& probe, const std::atomic<bool>* stop) {
  return {.probe = probe, .timeout_s = action.timeout_s, .despite_seccomp = action.despite_seccomp, .stop = stop};
}

/// Steps, phases and operations of torch, in a process of Python.
std::string hookTorch(pid_t pid, const ProcessAction& action, const std::string& probe) {
  const Result<std::string> file = installedFile("tracesmith_hooks/__init__.py");
  if (!file) return "torch is not hooked: " + file.status().message();
  std::string code = kHook, folder, library;
  appendJsonString(folder, file->substr(0, file->rfind('/')));
  appendJsonString(library, probe);
  replace(code, "%FOLDER%", folder);
  replace(code, "%PROBE%", library);
  EvalOptions options = evalOptions(action, probe, nullptr);
  options.timeout_s = 5;
  const Result<Evaluated> done = evaluate(pid, code, options);
  if (!done) return "torch is not hooked: " + done.status().message();
  if (!done->exception.empty()) {
    std::string last = done->exception;
    while (last.ends_with('\n')) last.pop_back();
    return "torch is not hooked: " + last.substr(last.rfind('\n') + 1);
  }
  return done->result == "True"
             ? "torch is hooked: steps, phases and data waits from the next step on; process groups made before, and "
               "functions compiled before, are not seen"
             : "torch is hooked once the program imports it";
}

Status attachTo(pid_t pid, const ProcessAction& action, const std::string& probe, ActionOutcome& outcome) {
  AttachOptions options;
  options.probe = probe;
  options.mode = action.mode;
  options.patience_ns = static_cast<int64_t>(action.timeout_s * 1e9);
  options.despite_seccomp = action.despite_seccomp;
  Result<Attached> attached = attach(pid, options);
  if (!attached) return attached.status();
  outcome.before = attached->resumed;
  outcome.ring = attached->ring;
  outcome.notes = std::move(attached->notes);
  if (attached->resumed) return {};
  outcome.thread = attached->how.thread;
  outcome.borrowed_ns = attached->how.borrowed_ns;
  if (attached->python && !action.no_python) outcome.notes.push_back(hookTorch(pid, action, probe));
  return {};
}

Status evaluateIn(pid_t pid, const ProcessAction& action, const std::string& probe, const std::atomic<bool>* stop,
                  ActionOutcome& outcome) {
  Result<Evaluated> done = evaluate(pid, action.code, evalOptions(action, probe, stop));
  if (!done) return done.status();
  outcome.result = done->result.value_or("");
  outcome.output = std::move(done->output);
  outcome.exception = std::move(done->exception);
  outcome.truncated = done->truncated;
  return {};
}

Status actOn(pid_t pid, const ProcessAction& action, const std::atomic<bool>* stop, ActionOutcome& outcome) {
  if (action.name == "detach") {
    const Result<bool> was = detach(pid);
    if (was) outcome.before = *was;
    return was.status();
  }
  const Result<std::string> probe = installedFile("libtracesmith_probe.so");
  if (!probe) return Status::notFound(action.name + " needs " + probe.status().message());
  if (action.name == "attach") return attachTo(pid, action, *probe, outcome);
  if (action.name == "eval") return evaluateIn(pid, action, *probe, stop, outcome);
  return Status::invalid("there is nothing called " + action.name + " that can be done to a process");
}

}  // namespace

std::vector<ActionOutcome> act(const ProcessAction& action, const std::vector<int64_t>& pids,
                               const std::atomic<bool>* stop) {
  std::vector<ActionOutcome> outcomes(pids.size());
  parallelFor(pids.size(), std::min(pids.size(), kAtATime), [&](size_t i, size_t) {
    outcomes[i].pid = pids[i];
    outcomes[i].problem = actOn(static_cast<pid_t>(pids[i]), action, stop, outcomes[i]).message();
  });
  return outcomes;
}

std::vector<model::SampledStacks> sampleFor(const model::SampleWish& wish, const std::vector<pid_t>& pids,
                                            const std::vector<capture::ProcessNow>& recorded,
                                            const std::atomic<bool>* stop) {
  static const std::atomic<bool> never{false};
  Sampling sampling({.seconds = std::min(wish.seconds, kMostSeconds), .rate = wish.rate, .native = wish.native});
  for (const pid_t pid : pids) {
    std::optional<int64_t> rank;
    for (const capture::ProcessNow& p : recorded)
      if (p.pid == pid && p.rank >= 0 && !p.simulated) rank = p.rank;
    (void)sampling.add(pid, rank, "");  // it is in the list with its problem
  }
  if (!pids.empty()) (void)sampling.run(stop ? *stop : never, nullptr, [](double) {});
  const trace::StackCounts& counts = sampling.counts();
  std::vector<model::SampledStacks> out(counts.processes.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const trace::StackCounts::Process& p = counts.processes[i];
    out[i].pid = p.pid;
    out[i].rank = p.rank;
    out[i].command = p.command;
    out[i].looks = p.looks;
    out[i].missed = p.missed;
    out[i].problem = sampling.processes()[i].problem;
    if (out[i].problem.empty()) out[i].problem = sampling.processes()[i].note;
  }
  for (const auto& [key, count] : counts.counts) {
    const trace::StackCounts::Thread& thread = counts.threads[trace::StackCounts::threadOf(key)];
    model::StackSamples& s = out[thread.process].stacks.emplace_back();
    s.tid = thread.tid;
    s.thread = thread.name;
    s.stack = counts.table.textOf(trace::StackCounts::stackOf(key));
    s.on_cpu = count.samples[trace::StackCounts::on_cpu];
    s.waiting = count.samples[trace::StackCounts::waiting];
    s.unknown = count.samples[trace::StackCounts::unknown];
  }
  return out;
}

double secondsOf(const model::ProcessQuery& query) {
  if (query.sample) return std::clamp(query.sample->seconds, 0.0, kMostSeconds);
  if (!query.action) return 0;
  if (query.action->name == "detach") return 1;
  return kPatienceS + std::clamp(query.action->timeout_s, 0.0, kMostSeconds);
}

}  // namespace tracesmith::process
