// tracesmith eval: Python code in a running process.
#include <cstdio>
#include <memory>
#include <vector>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/process_action.hpp"
#include "cli/terminal.hpp"

namespace tracesmith::cli {
namespace {

using model::ActionOutcome;

struct Options : ProcessActionCommand {
  using ProcessActionCommand::ProcessActionCommand;
  std::vector<std::string> words;
};

std::string jsonOf(const ProcessActionCommand&, const ActionOutcome& done) {
  std::string out;
  JsonWriter json(out);
  const auto optional = [&](const char* key, const std::string& text) {
    json.key(key);
    text.empty() ? json.null() : json.value(text);
  };
  json.beginObject().field("pid", done.pid);
  optional("result", done.result);
  json.field("output", done.output);
  optional("exception", done.exception);
  json.field("truncated", done.truncated).endObject();
  return out;
}

void print(const ProcessActionCommand&, const std::string& node, const ActionOutcome& done) {
  if (!node.empty()) std::printf("%s:\n", processText(node, done).c_str());
  std::printf("%s", done.output.c_str());
  if (!done.result.empty()) std::printf("%s\n", done.result.c_str());
  if (!done.exception.empty()) std::fprintf(stderr, "%s", done.exception.c_str());
  if (done.truncated) warn("the answer was longer than 64 kB: the rest is missing");
}

Status check(Options& o) {
  o.action.code = o.words.back();
  if (o.words.size() > 2) return Status::invalid("eval takes a process and one text of code: put the code in quotes");
  if (o.words.size() == 2 && !(parseInt(o.words[0], o.pid) && o.pid > 0))
    return Status::invalid("\"" + o.words[0] + "\" is not a process id");
  return o.ProcessActionCommand::check();
}

}  // namespace

void addEval(Command& app) {
  auto o = std::make_shared<Options>("eval", 10, print, jsonOf);
  Command command = app.command("eval", "Run Python code in a running process");
  command
      .positional("PID|CODE", o->words,
                  "The process, or with -t none: the ranks there; and what to run. The value of a last expression is "
                  "printed")
      .required();
  command.option("--timeout", o->action.timeout_s, "How long the code may take")
      .type("SECONDS")
      .showDefault()
      .check(range(0.1, 3600.0));
  o->addTo(command);
  command.footer(
      "The code runs in the module __main__, on a thread of its own that waits for the interpreter's lock. What it "
      "prints\ncomes back; so does the traceback of an exception, with exit code 1. After --timeout, Python code is "
      "interrupted;\na call into C goes on. Your user must be the process's, or root. On other machines it takes the "
      "role admin, an\nagent with --allow-eval, and a minute at most; the agent and the master write it into their "
      "audit.log.\n\n"
      "Examples:  tracesmith eval 4100 'len(train_loader.dataset)'\n"
      "           tracesmith eval 4100 'import gc; gc.collect()'\n"
      "           tracesmith eval -t rank:3 'trainer.current_step' --master head:50051");
  command.run([o] { return check(*o); }, [o] { return o->run(); });
}

}  // namespace tracesmith::cli
