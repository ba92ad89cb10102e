// tracesmith run: a command and all its children under the probe, one trace.
#include <signal.h>
#include <sys/stat.h>
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
#include <thread>

#include "base/text.hpp"
#include "capture/collect/collector.hpp"
#include "cli/commands.hpp"

namespace tracesmith::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string output, mode = "default";
  bool proxy = false, graph_nodes = false, json = false;
  int flight_s = 0;
  std::vector<std::string> command;
};

std::atomic<pid_t> g_child{0};

/// The probe beside this program: ../lib/libtracesmith_probe.so.
Result<std::string> probePath() {
  std::error_code error;
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  fs::path probe = self.parent_path().parent_path() / "lib" / "libtracesmith_probe.so";
  if (error || !fs::exists(probe)) return Status::notFound("libtracesmith_probe.so is not in " + probe.parent_path().string() + ": build it with `make build`");
  return probe.string();
}

/// Points CUDA, NCCL and NVTX of the command at the probe. What somebody else set there stays.
void setEnvironment(const Options& o, const std::string& probe, const std::string& folder) {
  auto set = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
  auto taken = [&](const char* name) {
    const char* v = std::getenv(name);
    return v && *v && probe != v;
  };
  if (taken("CUDA_INJECTION64_PATH")) set("TRACESMITH_NEXT_CUDA_INJECTION", std::getenv("CUDA_INJECTION64_PATH"));  // it is called after us
  set("CUDA_INJECTION64_PATH", probe);
  if (taken("NCCL_PROFILER_PLUGIN")) warn("NCCL_PROFILER_PLUGIN is set already: collectives are left to that plugin");
  else set("NCCL_PROFILER_PLUGIN", probe);
  if (taken("NVTX_INJECTION64_PATH")) warn("NVTX_INJECTION64_PATH is set already: NVTX ranges are left to that tool");
  else set("NVTX_INJECTION64_PATH", probe);
  const char* preload = std::getenv("LD_PRELOAD");
  set("LD_PRELOAD", preload && *preload ? probe + ":" + preload : probe);
  set("TRACESMITH_PROBE", probe);
  set("TRACESMITH_DIR", folder);
  set("TRACESMITH_MODE", o.mode);
  set("TRACESMITH_READER", o.flight_s > 0 ? "0" : std::to_string(::getpid()));
  if (o.flight_s > 0) set("TRACESMITH_RING_MB", std::to_string(std::max(32, o.flight_s * 8)));
  if (o.proxy) set("TRACESMITH_PROXY", "1");
  if (o.graph_nodes) set("TRACESMITH_GRAPH_NODES", "1");
}

pid_t start(const Options& o) {
  std::vector<char*> argv;
  for (const std::string& a : o.command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGQUIT, SIG_DFL);
    ::execvp(argv[0], argv.data());
    std::fprintf(stderr, "tracesmith: cannot run %s: %s\n", argv[0], std::strerror(errno));
    ::_exit(errno == ENOENT ? 127 : 126);
  }
  return pid;
}

void followNew(capture::Collector& collector, const std::string& folder, bool attach) {
  for (const std::string& path : ring::findRings(folder))
    if (!collector.follows(path)) (void)collector.follow(path, attach);  // one that is not ready yet is tried again
}

void summary(const Options& o, const capture::CollectorStats& s) {
  for (const std::string& n : s.notes) warn(n);
  if (s.processes == 0) warn("no process of the command used CUDA, NCCL, NVTX or tracesmith.h: the trace has no events");
  else if (!s.saw_cuda) warn("no GPU records: the command did not use a GPU, or CUPTI could not be used");
  if (o.json) {
    std::string text;
    JsonWriter w(text);
    w.beginObject().field("file", o.output).field("processes", s.processes).field("records", s.records).field("kernels", s.kernels);
    w.field("collectives", s.collectives).field("lost", s.losses).endObject();
    std::fprintf(stderr, "%s\n", text.c_str());
    return;
  }
  std::fprintf(stderr, "tracesmith: %s: %s records of %s processes, %s kernels, %s collectives%s\n", o.output.c_str(), humanCount(s.records).c_str(), humanCount(s.processes).c_str(),
               humanCount(s.kernels).c_str(), humanCount(s.collectives).c_str(), s.losses ? (", " + humanCount(s.losses) + " lost (see table losses)").c_str() : ", none lost");
}

int run(Options o) {
  Result<std::string> probe = probePath();
  if (!probe) return fail(probe.status());
  Result<std::string> base = ring::ringFolder();
  if (!base) return fail(base.status());
  const std::string folder = *base + "/run-" + std::to_string(::getpid());
  if (::mkdir(folder.c_str(), 0700) != 0) return fail(Status::io("cannot create " + folder + ": " + std::strerror(errno)));
  if (o.output.empty()) o.output = fs::path(o.command[0]).filename().string() + ".sbt";
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(o.output);
  if (!writer) return fail(writer.status());
  setEnvironment(o, *probe, folder);

  // Ctrl-C and Ctrl-\ reach the command from the terminal; what is sent to us goes on to it. We end after it.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGQUIT, SIG_IGN);
  g_child = start(o);
  if (g_child < 0) return fail(Status::io(std::string("cannot fork: ") + std::strerror(errno)));
  for (int s : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2})
    ::signal(s, [](int number) { if (pid_t child = g_child.load()) ::kill(child, number); });

  const bool flight = o.flight_s > 0;
  capture::Collector collector(**writer, capture::hostName());
  Status collecting;
  auto collect = [&] {
    followNew(collector, folder, !flight);
    if (flight || !collecting) return;
    if (Result<size_t> n = collector.drain(); !n) collecting = n.status();
  };
  int status = 0;
  while (::waitpid(g_child, &status, WNOHANG) == 0) {
    collect();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  g_child = 0;
  // Other processes of the job may still be writing their last records.
  for (int i = 0; i < 100 && collector.alive() > 0; ++i) {
    collect();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  collect();
  if (flight && collecting) {
    timespec now;
    ::clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    uint64_t now_ns = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000ull + static_cast<uint64_t>(now.tv_nsec);
    if (Result<size_t> n = collector.snapshot(now_ns - static_cast<uint64_t>(o.flight_s) * 1'000'000'000ull); !n) collecting = n.status();
  }
  if (collecting) collecting = collector.finish();
  if (collecting) collecting = (*writer)->close();
  if (!collecting) (void)fail(collecting);  // the command's own result stands
  else summary(o, collector.stats());
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

void addRun(CLI::App& app, Run& r) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Run a command and record every GPU kernel, copy and collective of it and its children");
  command->add_option("-o,--output", o->output, "Trace to write; default: the command's name with .sbt")->type_name("FILE.sbt");
  command->add_option("--mode", o->mode,
                      "light: kernels, copies, collectives; default: also launch calls, NVTX, synchronisation; full: all CUDA calls")
      ->capture_default_str()
      ->check(CLI::IsMember({"light", "default", "full"}));
  command->add_flag("--proxy", o->proxy, "Also NCCL's network transfers (proxy operations)");
  command->add_flag("--graph-nodes", o->graph_nodes, "Kernels inside CUDA graphs one by one, instead of one row a graph launch (costs more)");
  command->add_option("--flight", o->flight_s, "Keep only the last SECONDS in memory; written at the end, or any time by `tracesmith record --last`")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 3600));
  command->add_flag("--json", o->json, "Print the summary (on standard error) as JSON");
  command->add_option("command", o->command, "Command to run, after --")->required()->type_name("CMD...");
  command->positionals_at_end();
  command->footer(
      "The command is not changed: its input, output, signals and exit code pass through. If the probe fails, only the recording stops.\n\n"
      "Example:  tracesmith run -o train.sbt -- torchrun --nproc-per-node 8 train.py");
  command->callback([o, &r] { r = [o] { return run(*o); }; });
}

}  // namespace tracesmith::cli
