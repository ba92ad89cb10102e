// tracesmith attach and detach: the probe in a process that was started without it.
#include <cstdio>
#include <memory>

#include "base/library.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "process/attach.hpp"
#include "process/eval.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  int64_t pid = 0;
  std::string mode = "default";
  double timeout_s = 5;
  bool no_python = false, despite_seccomp = false, json = false;
};

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

/// Steps, phases and operations of torch, in a process of Python.
std::string hookTorch(const Options& o, const std::string& probe) {
  const Result<std::string> file = installedFile("tracesmith_hooks/__init__.py");
  if (!file) return "torch is not hooked: " + file.status().message();
  std::string code = kHook, folder, library;
  appendJsonString(folder, file->substr(0, file->rfind('/')));
  appendJsonString(library, probe);
  replace(code, "%FOLDER%", folder);
  replace(code, "%PROBE%", library);
  process::EvalOptions eval;
  eval.probe = probe;
  eval.timeout_s = 5;
  eval.despite_seccomp = o.despite_seccomp;
  const Result<process::Evaluated> done = process::evaluate(static_cast<pid_t>(o.pid), code, eval);
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

int attach(const Options& o) {
  const Result<std::string> probe = installedFile("libtracesmith_probe.so");
  if (!probe) return fail(Status::notFound("attach needs " + probe.status().message()));
  process::AttachOptions options;
  options.probe = *probe;
  options.mode = o.mode;
  options.patience_ns = static_cast<int64_t>(o.timeout_s * 1e9);
  options.despite_seccomp = o.despite_seccomp;
  Result<process::Attached> attached = process::attach(static_cast<pid_t>(o.pid), options);
  if (!attached) return fail(attached.status());
  if (attached->python && !attached->resumed && !o.no_python) attached->notes.push_back(hookTorch(o, *probe));
  if (o.json) {
    std::string out;
    JsonWriter json(out);
    json.beginObject().field("pid", o.pid).field("mode", o.mode).field("resumed", attached->resumed);
    json.field("ring", attached->ring).key("thread");
    attached->resumed ? json.null() : json.value(static_cast<int64_t>(attached->how.thread));
    json.key("borrowed_ns");
    attached->resumed ? json.null() : json.value(attached->how.borrowed_ns);
    json.key("notes").beginArray();
    for (const std::string& note : attached->notes) json.value(note);
    json.endArray().endObject();
    std::printf("%s\n", out.c_str());
    return 0;
  }
  if (attached->resumed)
    std::printf("process %lld had the probe already: it records again, in mode %s\n", static_cast<long long>(o.pid),
                o.mode.c_str());
  else
    std::printf("process %lld is under the probe, in mode %s (thread %d was borrowed for %s)\n",
                static_cast<long long>(o.pid), o.mode.c_str(), attached->how.thread,
                humanNs(static_cast<double>(attached->how.borrowed_ns)).c_str());
  for (const std::string& note : attached->notes) std::printf("note: %s\n", printable(note).c_str());
  std::printf("Save what it does with:  tracesmith record --pid %lld --last 30 -o FILE.sbt\n",
              static_cast<long long>(o.pid));
  return 0;
}

int detach(const Options& o) {
  const Result<bool> was = process::detach(static_cast<pid_t>(o.pid));
  if (!was) return fail(was.status());
  if (o.json)
    std::printf("{\"pid\":%lld,\"was_recording\":%s}\n", static_cast<long long>(o.pid), *was ? "true" : "false");
  else
    std::printf(*was ? "process %lld is no longer recorded; what it has recorded is kept until it ends\n"
                     : "process %lld was not being recorded\n",
                static_cast<long long>(o.pid));
  return 0;
}

}  // namespace

void addAttach(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("attach", "Bring the probe into a process that was started without it");
  command.positional("PID", o->pid, "The process").required().check(positive());
  command.option("--mode", o->mode, "What to record, as with `run`")
      .showDefault()
      .check(oneOf({"light", "default", "full", "watch"}));
  command
      .option("--timeout", o->timeout_s,
              "How long to wait for a thread to come to a place where a library can be loaded")
      .type("SECONDS")
      .showDefault()
      .check(range(0.1, 600.0));
  command.flag("--no-python", o->no_python, "Do not hook torch in a process of Python");
  command.flag("--despite-seccomp", o->despite_seccomp,
               "Also where a seccomp filter could end the process for loading a library");
  command.flag("--json", o->json, "Print JSON");
  command.footer(
      "One thread is borrowed for some milliseconds: one that waits in the kernel, outside the allocator and the "
      "loader,\nor else one in the program's own code. It loads the probe on a stack of ours, and goes on where it "
      "was. Your user\nmust be the process's, or root. The records stay in memory, the oldest are overwritten; save "
      "them with `record`.\n\nExamples:  tracesmith attach 4100 && sleep 30 && tracesmith record --pid 4100 --last 30 "
      "-o now.sbt\n           tracesmith detach 4100");
  command.run([o] { return attach(*o); });
}

void addDetach(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("detach", "Stop what `attach` started");
  command.positional("PID", o->pid, "The process").required().check(positive());
  command.flag("--json", o->json, "Print JSON");
  command.footer(
      "The probe stays in the process, but records nothing and costs nothing; `attach` turns it on "
      "again.\n\nExample:  tracesmith detach 4100");
  command.run([o] { return detach(*o); });
}

}  // namespace tracesmith::cli
