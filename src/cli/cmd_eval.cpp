// tracesmith eval: Python code in a running process.
#include <cstdio>
#include <memory>

#include "base/library.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "process/eval.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  std::string target, code;
  double timeout_s = 10;
  bool despite_seccomp = false, json = false;
};

std::string jsonOf(int64_t pid, const process::Evaluated& done) {
  std::string out;
  JsonWriter json(out);
  const auto optional = [&](const char* key, bool there, const std::string& text) {
    json.key(key);
    there ? json.value(text) : json.null();
  };
  json.beginObject().field("pid", pid);
  optional("result", done.result.has_value(), done.result.value_or(""));
  json.field("output", done.output);
  optional("exception", !done.exception.empty(), done.exception);
  json.field("truncated", done.truncated).endObject();
  return out;
}

int run(const Options& o, int64_t pid) {
  const Result<std::string> probe = installedFile("libtracesmith_probe.so");
  if (!probe) return fail(Status::notFound("eval needs " + probe.status().message()));
  process::EvalOptions options;
  options.probe = *probe;
  options.timeout_s = o.timeout_s;
  options.despite_seccomp = o.despite_seccomp;
  const Result<process::Evaluated> done = process::evaluate(static_cast<pid_t>(pid), o.code, options);
  if (!done) return fail(done.status());
  if (o.json) {
    std::printf("%s\n", jsonOf(pid, *done).c_str());
  } else {
    std::printf("%s", done->output.c_str());
    if (done->result) std::printf("%s\n", done->result->c_str());
    if (!done->exception.empty()) std::fprintf(stderr, "%s", done->exception.c_str());
    if (done->truncated) warn("the answer was longer than 64 kB: the rest is missing");
  }
  return done->exception.empty() ? 0 : 1;
}

}  // namespace

void addEval(Command& app) {
  auto o = std::make_shared<Options>();
  auto pid = std::make_shared<int64_t>(0);
  Command command = app.command("eval", "Run Python code in a running process");
  command.positional("PID", o->target, "The process; of this machine").required();
  command.positional("CODE", o->code, "What to run; the value of a last expression is printed").required();
  command.option("--timeout", o->timeout_s, "How long the code may take")
      .type("SECONDS")
      .showDefault()
      .check(range(0.1, 3600.0));
  command.flag("--despite-seccomp", o->despite_seccomp,
               "Also where a seccomp filter could end the process for loading a library");
  command.flag("--json", o->json, "Print JSON");
  command.footer(
      "The code runs in the module __main__, on a thread of its own that waits for the interpreter's lock. What it "
      "prints\ncomes back; so does the traceback of an exception, with exit code 1. After --timeout, Python code is "
      "interrupted;\na call into C goes on. Your user must be the process's, or root. Processes of other machines are "
      "refused: nobody\nruns code there through an agent.\n\n"
      "Examples:  tracesmith eval 4100 'len(train_loader.dataset)'\n"
      "           tracesmith eval 4100 'import gc; gc.collect()'");
  command.run(
      [o, pid]() -> Status {
        if (parseInt(o->target, *pid) && *pid > 0) return {};
        const bool remote = o->target.find(':') != std::string::npos || o->target == "all";
        return Status::invalid(remote ? "eval runs code on this machine only: run it on the node of the process, " +
                                            std::string("with its process id")
                                      : "\"" + o->target + "\" is not a process id");
      },
      [o, pid] { return run(*o, *pid); });
}

}  // namespace tracesmith::cli
