// tracesmith attach and detach: the probe in a process that was started without it.
#include <cstdio>
#include <memory>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/process_action.hpp"
#include "cli/terminal.hpp"

namespace tracesmith::cli {
namespace {

using model::ActionOutcome;

void printAttached(const ProcessActionCommand& o, const std::string& node, const ActionOutcome& done) {
  const std::string who = processText(node, done);
  if (done.before)
    std::printf("%s had the probe already: it records again, in mode %s\n", who.c_str(), o.action.mode.c_str());
  else
    std::printf("%s is under the probe, in mode %s (thread %lld was borrowed for %s)\n", who.c_str(),
                o.action.mode.c_str(), static_cast<long long>(done.thread.value_or(0)),
                humanNs(static_cast<double>(done.borrowed_ns.value_or(0))).c_str());
  for (const std::string& note : done.notes) std::printf("note: %s\n", printable(note).c_str());
  if (node.empty())
    std::printf("Save what it does with:  tracesmith record --pid %lld --last 30 -o FILE.sbt\n",
                static_cast<long long>(done.pid));
}

void printDetached(const ProcessActionCommand&, const std::string& node, const ActionOutcome& done) {
  std::printf(done.before ? "%s is no longer recorded; what it has recorded is kept until it ends\n"
                          : "%s was not being recorded\n",
              processText(node, done).c_str());
}

std::string attachedJson(const ProcessActionCommand& o, const ActionOutcome& done) {
  std::string out;
  JsonWriter json(out);
  json.beginObject().field("pid", done.pid).field("mode", o.action.mode).field("resumed", done.before);
  json.field("ring", done.ring).key("thread");
  done.thread ? json.value(*done.thread) : json.null();
  json.key("borrowed_ns");
  done.borrowed_ns ? json.value(*done.borrowed_ns) : json.null();
  json.key("notes").beginArray();
  for (const std::string& note : done.notes) json.value(note);
  json.endArray().endObject();
  return out;
}

std::string detachedJson(const ProcessActionCommand&, const ActionOutcome& done) {
  return "{\"pid\":" + std::to_string(done.pid) + ",\"was_recording\":" + (done.before ? "true" : "false") + "}";
}

}  // namespace

void addAttach(Command& app) {
  auto o = std::make_shared<ProcessActionCommand>("attach", 5, printAttached, attachedJson);
  o->action.mode = "default";
  Command command = app.command("attach", "Bring the probe into a process that was started without it");
  command.positional("PID", o->pid, "The process; without it, the ranks of the --target").check(positive());
  command.option("--mode", o->action.mode, "What to record, as with `run`")
      .showDefault()
      .check(oneOf({"light", "default", "full", "watch"}));
  command
      .option("--timeout", o->action.timeout_s,
              "How long to wait for a thread to come to a place where a library can be loaded")
      .type("SECONDS")
      .showDefault()
      .check(range(0.1, 600.0));
  command.flag("--no-python", o->action.no_python, "Do not hook torch in a process of Python");
  o->addTo(command);
  command.footer(
      "One thread is borrowed for some milliseconds: one that waits in the kernel, outside the allocator and the "
      "loader,\nor else one in the program's own code. It loads the probe on a stack of ours, and goes on where it "
      "was. Your user\nmust be the process's, or root. The records stay in memory, the oldest are overwritten; save "
      "them with `record`.\nOn other machines it takes the role admin, and an agent with --allow-eval.\n\n"
      "Examples:  tracesmith attach 4100 && sleep 30 && tracesmith record --pid 4100 --last 30 -o now.sbt\n"
      "           tracesmith attach -t rank:3 --master head:50051\n           tracesmith detach 4100");
  command.run([o] { return o->check(); }, [o] { return o->run(); });
}

void addDetach(Command& app) {
  auto o = std::make_shared<ProcessActionCommand>("detach", 5, printDetached, detachedJson);
  Command command = app.command("detach", "Stop what `attach` started");
  command.positional("PID", o->pid, "The process; without it, the ranks of the --target").check(positive());
  o->Target::add(command);
  command.footer(
      "The probe stays in the process, but records nothing and costs nothing; `attach` turns it on "
      "again.\n\nExample:  tracesmith detach 4100");
  command.run([o] { return o->check(); }, [o] { return o->run(); });
}

}  // namespace tracesmith::cli
