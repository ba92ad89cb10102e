// tracesmith run: a command and all its children under the probe, one trace.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "base/clock.hpp"
#include "base/count.hpp"
#include "base/file.hpp"
#include "base/free_path.hpp"
#include "base/library.hpp"
#include "base/text.hpp"
#include "capture/collect/collector.hpp"
#include "capture/collect/job_environment.hpp"
#include "capture/ring/identity.hpp"
#include "capture/ring/settings.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/recording.hpp"
#include "cli/ring_folder.hpp"
#include "cli/run_stacks.hpp"
#include "cli/run_summary.hpp"
#include "cli/task_part.hpp"
#include "hardware/node/recorder.hpp"

namespace tracesmith::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kPeriod = std::chrono::milliseconds(20);

struct Options {
  std::string output, mode, window, budget, nccl_times, keep, role;  // mode: "" until it is chosen
  bool proxy = false, graph_nodes = false, per_step = false, no_telemetry = false, no_python = false, json = false,
       force = false;
  int flight_s = 0;
  double stacks_hz = 0;  // 0: none
  std::vector<std::string> command;
};

/// The command while it runs. Signals sent to us go on to it; Ctrl-C and Ctrl-\\ reach it from the terminal. We end
/// after it.
class Child {
 public:
  /// Returns when the command runs, or could not be run: then exitCode() says why, as a shell has it.
  Status start(const std::vector<std::string>& arguments);
  bool running();
  pid_t pid() const { return child_; }
  /// As a shell has it: 128 + n after signal n.
  int exitCode() const { return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_); }

 private:
  static void forward(int number) {
    if (pid_t child = child_.load()) ::kill(child, number);
  }
  static std::atomic<pid_t> child_;
  int status_ = 0;
};
std::atomic<pid_t> Child::child_{0};

Status Child::start(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  // Handlers are in place before there is a command, and signals wait until it has a process: none is lost in between.
  const int kForwarded[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}, kIgnored[] = {SIGINT, SIGQUIT};
  sigset_t all, old;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &old);
  struct sigaction forwarded {
  }, ignored{}, plain{}, was[NSIG];
  forwarded.sa_handler = forward;
  forwarded.sa_flags = SA_RESTART;
  ignored.sa_handler = SIG_IGN;
  plain.sa_handler = SIG_DFL;
  for (int n : kIgnored) ::sigaction(n, &ignored, &was[n]);
  ::sigaction(SIGCHLD, &plain, &was[SIGCHLD]);  // where it is ignored there is no exit code to wait for
  for (int n : kForwarded) {
    ::sigaction(n, nullptr, &was[n]);
    if (was[n].sa_handler != SIG_IGN) ::sigaction(n, &forwarded, nullptr);  // nohup
  }
  int started[2];  // closed by a successful exec; else it carries why not
  if (::pipe2(started, O_CLOEXEC) != 0) started[0] = started[1] = -1;
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (int n : {SIGINT, SIGQUIT, SIGCHLD, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) ::sigaction(n, &was[n], nullptr);
    ::sigprocmask(SIG_SETMASK, &old, nullptr);
    ::execvp(argv[0], argv.data());
    const int error = errno;
    (void)!::write(started[1], &error, sizeof error);
    ::_exit(error == ENOENT ? 127 : 126);
  }
  child_ = std::max(pid, 0);
  int error = pid < 0 ? errno : 0;
  ::close(started[1]);
  if (pid > 0 && ::read(started[0], &error, sizeof error) == sizeof error) {
    ::waitpid(pid, &status_, 0);
    child_ = 0;
  }
  ::close(started[0]);
  ::sigprocmask(SIG_SETMASK, &old, nullptr);
  if (pid < 0) return Status::io(std::string("cannot fork: ") + std::strerror(error));
  return error ? Status::io("cannot run " + arguments[0] + ": " + std::strerror(error)) : Status();
}

bool Child::running() {
  if (child_ == 0 || ::waitpid(child_, &status_, WNOHANG) == 0) return child_ != 0;
  child_ = 0;
  return false;
}

/// For this process and the command.
void setEnvironment(const Options& o, const std::string& folder) {
  capture::Environment job = capture::ownEnvironment();
  for (const std::string& missing : capture::addProbe({folder, o.mode, !o.no_python}, job)) warn(missing);
  for (const auto& [name, value] : job) ::setenv(name.c_str(), value.c_str(), 1);
  auto set = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
  if (!o.window.empty()) set("TRACESMITH_WINDOW", o.window);
  if (!o.budget.empty()) set("TRACESMITH_BUDGET_PPM", std::to_string(*ring::budgetOf(o.budget)));
  if (!o.nccl_times.empty()) set("TRACESMITH_NCCL_TIMES", o.nccl_times);
  if (!o.role.empty()) set("TRACESMITH_ROLE", o.role);
  set("TRACESMITH_READER",
      o.flight_s > 0 ? "0" : std::to_string(::getpid()) + ":" + std::to_string(ring::pidNamespace()));
  if (o.flight_s > 0) set("TRACESMITH_RING_MB", std::to_string(std::max(32, o.flight_s * 8)));
  if (o.proxy) set("TRACESMITH_PROXY", "1");
  if (o.graph_nodes) set("TRACESMITH_GRAPH_NODES", "1");
}

void followNew(capture::Collector& collector, const std::string& folder, bool attach) {
  for (const std::string& path : ring::findRings(folder))
    if (!collector.follows(path)) (void)collector.follow(path, attach);  // one that is not ready yet is tried again
}

/// Processes that could not make a ring leave a file "<pid>.<errno>.failed".
void tellFailures(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    int pid = 0, error = 0;
    if (entry.path().extension() != ".failed" ||
        std::sscanf(entry.path().filename().c_str(), "%d.%d.", &pid, &error) != 2)
      continue;
    warn("process " + std::to_string(pid) + " is not recorded: it could not create a file in " + folder + ": " +
         std::strerror(error));
  }
}

/// Whether the trace can be written, before there is a command: a wrong name is a mistake to mend.
Status checkWritable(const std::string& output) {
  std::error_code ignored;
  if (fs::is_directory(output, ignored)) return Status::invalid(output + " is a folder");
  const std::string target = fs::exists(output, ignored) ? output : fs::absolute(output).parent_path().string();
  return ::access(target.c_str(), W_OK) == 0 ? Status() : errnoStatus("create", output);
}

/// Of one of several tasks that write one trace.
Result<std::optional<TaskPart>> partOf(const Options& o) {
  const std::optional<Tasks> tasks = tasksOfLauncher();
  if (!tasks) return std::optional<TaskPart>();
  Result<TaskPart> part = TaskPart::create(*tasks, o.output);
  if (!part) return part.status();
  return std::optional<TaskPart>(std::move(*part));
}

int run(Options o) {
  if (o.mode.empty()) o.mode = o.flight_s > 0 ? "watch" : "default";
  Result<std::string> probe = installedFile("libtracesmith_probe.so");
  if (!probe) return fail(Status::notFound("recording needs " + probe.status().message()));
  RingFolder folder;
  if (Status s = folder.create(); !s) return fail(s);
  if (o.output.empty()) o.output = freePath(fs::path(o.command[0]).filename().string(), ".sbt");
  if (Status s = checkWritable(o.output); !s) return fail(s);
  setEnvironment(o, folder.path());
  Child command;
  if (Status s = command.start(o.command); !s) return (void)fail(s), std::max(1, command.exitCode());
  // Only now: a command that cannot be run leaves no trace, and destroys none.
  Result<std::optional<TaskPart>> part = partOf(o);
  Result<Recording> recording =
      !part ? Result<Recording>(part.status()) : Recording::create(*part ? (*part)->path() : o.output, o.keep);
  if (!recording) {
    // A full disk must not cost the command its run.
    (void)fail(recording.status());
    warn("the command runs without being recorded");
    while (command.running()) std::this_thread::sleep_for(kPeriod);
    return command.exitCode();
  }

  const bool flight = o.flight_s > 0;
  capture::Collector collector(recording->writer(), capture::hostName());
  if (o.per_step) collector.sumUpSteps();
  // A flight recorder keeps seconds, and telemetry beside it would grow for days.
  std::unique_ptr<hardware::TelemetryRecorder> telemetry;
  const std::optional<Tasks> tasks = tasksOfLauncher();
  if (!o.no_telemetry && !flight && (!tasks || tasks->first_on_node)) {
    hardware::SamplerOptions sampling;
    sampling.places = hardware::Places::fromEnvironment();
    sampling.places.node = capture::hostName();
    telemetry = std::make_unique<hardware::TelemetryRecorder>(recording->writer(), sampling);
    telemetry->start();
    collector.leaveOutNode();
  }
  std::unique_ptr<RunStacks> stacks;
  if (o.stacks_hz > 0)
    stacks = std::make_unique<RunStacks>(recording->writer(), folder.path(), command.pid(), o.stacks_hz);
  Status collecting;
  auto collect = [&] {
    followNew(collector, folder.path(), !flight);
    if (*part) (*part)->alive();
    if (flight || !collecting) return;
    if (Result<size_t> n = collector.drain(); !n) collecting = n.status();
    if (collecting) collecting = recording->keepUp(collector);
  };
  while (command.running()) {
    collect();
    std::this_thread::sleep_for(kPeriod);
  }
  // Other processes of the job may still be writing their last records.
  collect();
  for (int i = 0; i < 100 && collector.alive() > 0; ++i) {
    std::this_thread::sleep_for(kPeriod);
    collect();
  }
  const size_t left = collector.alive();
  collect();
  if (flight && collecting) {
    const uint64_t now = rawClock(), span = static_cast<uint64_t>(o.flight_s) * 1'000'000'000ull;
    collector.leaveOutBefore(now > span ? now - span : 0);
    if (Result<size_t> n = collector.snapshot(); !n) collecting = n.status();
  }
  if (stacks)
    if (Status s = stacks->stop(); !s && collecting) collecting = s;
  if (telemetry)
    if (Status s = telemetry->stop(); !s && collecting) collecting = s;
  if (collecting) collecting = collector.finish();
  if (collecting) collecting = recording->close();
  Result<std::string> joined = std::string();
  if (collecting && *part) joined = (*part)->done();
  if (!joined) collecting = joined.status();
  tellFailures(folder.path());
  if (left > 0) warn(counted(left, "process", "processes") + " of the command still running: no longer recorded");
  if (!collecting)
    (void)fail(collecting);  // the command's own result stands
  else if (*part)
    std::fprintf(stderr, "%s%s", joined->c_str(), joined->empty() ? "" : "\n");
  else
    printSummary(collector.stats(), {o.output, o.per_step, o.mode == "watch", o.json});
  return command.exitCode();
}

}  // namespace

void addRun(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("run", "Run a command and record its GPU kernels, copies and collectives");
  command
      .option("-o,--output", o->output,
              "Trace to write (default: the command's name with .sbt, and a number if that is taken)")
      .type("FILE.sbt");
  command
      .option("--mode", o->mode,
              "What to record. light: kernels, copies, collectives; default: also launch calls, NVTX and the host's "
              "waits; full: all CUDA calls and every synchronisation; watch: collectives, steps and NVTX always, and "
              "what default records for a few steps at a time, for jobs that run for weeks (default: default, with "
              "--flight: watch)")
      .check(oneOf({"light", "default", "full", "watch"}));
  command
      .option("--window", o->window,
              "In watch mode: record the GPU in K of every N steps, the same ones on all ranks (default: 2/100). Where "
              "no steps are marked: for that part of every minute")
      .type("K/N");
  command
      .option(
          "--budget", o->budget,
          "In watch mode: how much longer the job may take because it is watched, such as 1%. The probe compares steps "
          "with and without records, and doubles N until the cost is within the budget")
      .type("PERCENT");
  Recording::addKeep(command, o->keep);
  addForce(command, o->force);
  command
      .option(
          "--nccl-times", o->nccl_times,
          "In watch mode, between windows. launch: when NCCL's operations were launched; events: also when they ran "
          "on the GPU, by CUDA events, which cost 5 to 8 µs of host time per operation (default: launch)")
      .check(oneOf({"launch", "events"}));
  command.flag("--proxy", o->proxy, "Also record NCCL's network transfers (proxy operations)");
  command.flag(
      "--graph-nodes", o->graph_nodes,
      "Record each kernel inside a CUDA graph, instead of one row per graph launch (costs more). Windows of watch "
      "mode always do");
  command
      .option("--flight", o->flight_s,
              "Keep only the last SECONDS, in memory; write them at the end, or at any time with `tracesmith record "
              "--last`")
      .type("SECONDS")
      .check(range(1, 3600));
  command.flag(
      "--per-step", o->per_step,
      "Print a line for each training step: its duration, the computing time of the median and of the busiest rank, "
      "and the communicating time. Steps of torch programs are found automatically; mark others with tracesmith.h or "
      "with NVTX "
      "ranges named like \"step 12\"");
  command
      .option("--role", o->role,
              "What the command's processes are for: trainer, rollout, reward, evaluator, data, or any other word. "
              "`analyze` compares the roles of a trace")
      .type("ROLE");
  command
      .option(
          "--stacks", o->stacks_hz,
          "Also record where the Python threads of the ranks are, so many times a second (table stacks; draw it with "
          "`tracesmith sample --from`). Nothing is stopped for it. 1 costs next to nothing")
      .type("HZ")
      .check(range(0.01, 1000.0));
  command.flag("--no-telemetry", o->no_telemetry,
               "Do not record power, clocks, temperatures, memory and load of this machine (table metrics)");
  command.flag(
      "--no-python", o->no_python,
      "Do not hook torch in Python programs: no steps, phases, data waits and gloo operations unless the program "
      "marks them");
  command.flag("--json", o->json, "Print the summary (on standard error) as JSON");
  command.positional("COMMAND", o->command, "Command to run, after --").required().type("CMD");
  command.positionalsLast();
  command.footer(
      "The command runs unchanged: input, output, signals and exit code pass through. If the probe fails, only "
      "the\nrecording stops.\n\nExamples:  tracesmith run -o train.sbt -- torchrun --nproc-per-node 8 train.py\n"
      "           srun -n 16 tracesmith run -o job.sbt -- python train.py  # one trace of all tasks; also under "
      "mpirun\n"
      "           tracesmith run --mode watch --budget 1% --keep summary -o weeks.sbt -- torchrun train.py");
  command.run(
      [o]() -> Status {
        if (!o->window.empty() && !ring::windowOf(o->window))
          return Status::invalid("--window: give K/N, such as 2/100: K of every N steps");
        if (!o->budget.empty() && !ring::budgetOf(o->budget))
          return Status::invalid("--budget: give a percentage of the job's time between 0.001 and 100, such as 1%");
        const bool watch = o->mode == "watch" || (o->mode.empty() && o->flight_s > 0);
        if (!watch && (!o->window.empty() || !o->budget.empty() || !o->nccl_times.empty()))
          return Status::invalid("--window, --budget and --nccl-times are for --mode watch");
        if (!o->budget.empty() && !o->window.empty() && !ring::hasStepsWithout(*ring::windowOf(o->window)))
          return Status::invalid(
              "--budget compares steps with and without records: give a --window K/N with N of at "
              "least K + 3");
        if (o->stacks_hz > 0 && (o->flight_s > 0 || !o->keep.empty()))
          return Status::invalid("--stacks keeps every sample: not with --flight or --keep summary");
        const std::optional<Tasks> tasks = tasksOfLauncher();
        if (tasks && o->output.empty())
          return Status::invalid("give -o FILE.sbt: the " + std::to_string(tasks->tasks) +
                                 " tasks of this job write one trace together");
        return checkOutput(o->output, {}, o->force || (tasks && TaskPart::begun(*tasks, o->output)));
      },
      [o] { return run(*o); });
}

}  // namespace tracesmith::cli
