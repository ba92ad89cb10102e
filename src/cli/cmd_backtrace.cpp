// tracesmith backtrace: what a running process is doing, read from outside.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "hardware/process.hpp"
#include "process/backtrace.hpp"
#include "process/groups.hpp"

namespace tracesmith::cli {
namespace {

using namespace process;

struct Options {
  std::vector<int64_t> pids;
  int64_t rank = -1;
  bool all = false;
  bool native = false, json = false;
};

const char* stateName(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "in an uninterruptible wait";
    case 'T':
      return "stopped";
    case 't':
      return "stopped by a debugger";
    case 'Z':
      return "ended";
    case 'I':
      return "idle";
    default:
      return "";
  }
}

std::string hexadecimal(uint64_t address) {
  char text[24];
  std::snprintf(text, sizeof text, "+0x%llx", static_cast<unsigned long long>(address));
  return text;
}

void print(const Frame& f) {
  std::string line = "  " + (f.function.empty() ? std::string("?") : shorten(printable(f.function), 120));
  std::string place = printable(f.python ? f.file : f.file.substr(f.file.rfind('/') + 1));
  if (f.line) place += ":" + std::to_string(*f.line);
  if (f.function.empty() && f.address) place += hexadecimal(*f.address);
  if (!place.empty()) line += " (" + place + ")";
  if (f.times > 1) line += ", " + humanCount(f.times) + " times in a row";
  std::printf("%s\n", line.c_str());
}

void print(const ThreadStack& t) {
  std::string line = "Thread " + (t.tid ? std::to_string(*t.tid) : std::string("(id not known)"));
  if (!t.name.empty()) line += " \"" + printable(t.name) + "\"";
  if (*stateName(t.state)) line += std::string(", ") + stateName(t.state);
  if (t.holds_gil.value_or(false)) line += ", holds the GIL";
  std::printf("\n%s\n", line.c_str());
  for (const Frame& f : t.frames) print(f);
  if (t.frames.empty()) std::printf("  (%s)\n", t.python ? "no Python code" : "not a Python thread");
  if (t.truncated) std::printf("  … more frames, not read\n");
  if (t.damaged) std::printf("  … memory that is no stack\n");
  if (t.changed) std::printf("  (changed while it was read)\n");
}

void print(const Stacks& s) {
  std::string line = "Process " + std::to_string(s.pid) + ": " + shorten(printable(s.command), 200);
  std::printf("%s\n", line.c_str());
  line = s.python ? "Python " + text(*s.python) : "not a Python process";
  if (s.rank) line += ", rank " + std::to_string(*s.rank);
  if (!s.job.empty()) line += ", job " + printable(s.job);
  line += ", " + std::to_string(s.threads.size()) + (s.threads.size() == 1 ? " thread" : " threads");
  std::printf("%s\n", line.c_str());
  for (const ThreadStack& t : s.threads) print(t);
  for (const std::string& n : s.notes) std::printf("\nnote: %s\n", printable(n).c_str());
}

/// "3 ranks (0, 2, 3)", or where ranks are not known "2 processes (12, 15)".
std::string whoIs(const StackGroup& g, const std::vector<Stacks>& processes) {
  constexpr size_t kNamed = 8;
  bool ranks = true;
  for (const size_t m : g.members) ranks &= processes[m].rank.has_value();
  std::vector<int64_t> numbers;
  for (const size_t m : g.members) numbers.push_back(ranks ? *processes[m].rank : processes[m].pid);
  std::sort(numbers.begin(), numbers.end());
  const char* one = ranks ? "Rank" : "Process";
  if (numbers.size() == 1) return std::string(one) + " " + std::to_string(numbers[0]);
  std::string out = std::to_string(numbers.size()) + (ranks ? " ranks (" : " processes (");
  for (size_t i = 0; i < std::min(numbers.size(), kNamed); ++i) out += (i ? ", " : "") + std::to_string(numbers[i]);
  return out + (numbers.size() > kNamed ? ", …)" : ")");
}

std::string whereIs(const StackGroup& g) {
  if (g.place.empty()) return printable(g.what);
  return printable(g.what) + (g.own ? ", " : ", called from ") + printable(g.place);
}

void printGroups(const std::vector<Stacks>& processes, size_t refused) {
  const std::vector<StackGroup> groups = groupStacks(processes);
  for (const StackGroup& g : groups) std::printf("%s in %s\n", whoIs(g, processes).c_str(), whereIs(g).c_str());
  if (processes.empty()) std::printf("no Python processes\n");
  for (const StackGroup& g : groups) {
    const Stacks& first = processes[g.members[0]];
    if (g.thread >= first.threads.size()) continue;
    std::printf("\n%s in %s; the stack of process %d:\n", whoIs(g, processes).c_str(), whereIs(g).c_str(), first.pid);
    for (const Frame& f : first.threads[g.thread].frames) print(f);
  }
  if (refused > 0)
    std::printf("\nnote: %zu more Python %s not be read: run as root\n", refused,
                refused == 1 ? "process may" : "processes may");
}

std::string groupsJson(const std::vector<Stacks>& processes, size_t refused) {
  std::string out;
  JsonWriter json(out);
  json.beginObject().key("groups").beginArray();
  for (const StackGroup& g : groupStacks(processes)) {
    json.beginObject().field("what", g.what).field("own", g.own).key("place");
    g.place.empty() ? json.null() : json.value(g.place);
    json.key("pids").beginArray();
    for (const size_t m : g.members) json.value(static_cast<int64_t>(processes[m].pid));
    json.endArray().key("ranks").beginArray();
    for (const size_t m : g.members) processes[m].rank ? json.value(*processes[m].rank) : json.null();
    json.endArray().endObject();
  }
  json.endArray().key("processes").beginArray();
  for (const Stacks& s : processes) json.raw(stacksJson(s));
  json.endArray().field("not_permitted", static_cast<uint64_t>(refused)).endObject();
  return out;
}

int runMany(const Options& o) {
  size_t refused = 0;
  std::vector<pid_t> pids(o.pids.begin(), o.pids.end());
  if (pids.empty()) pids = pythonProcesses(refused);
  if (o.rank >= 0) std::erase_if(pids, [&](pid_t pid) { return hardware::processInfo("", pid).rank != o.rank; });
  const std::vector<Stacks> processes = backtraces(pids, {.native = o.native}, refused);
  if (o.rank >= 0 && processes.empty())
    return fail(Status::notFound("no Python process of rank " + std::to_string(o.rank) + " on this machine" +
                                 (refused > 0 ? " that may be read: run as root" : "")));
  if (o.json)
    std::printf("%s\n", groupsJson(processes, refused).c_str());
  else if (processes.size() == 1 && !o.all)
    print(processes[0]);
  else
    printGroups(processes, refused);
  return 0;
}

int runOne(const Options& o) {
  const Result<Stacks> stacks = backtrace(static_cast<pid_t>(o.pids[0]), {.native = o.native});
  if (!stacks) return fail(stacks.status());
  if (o.json)
    std::printf("%s\n", stacksJson(*stacks).c_str());
  else
    print(*stacks);
  return 0;
}

}  // namespace

void addBacktrace(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("backtrace", "Show what every thread of a running process is doing");
  Option pids =
      command.positional("PID", o->pids, "The process; of several, equal stacks are shown once").check(positive());
  Option all = command.flag("--all", o->all, "All Python processes of this machine that you may read");
  command.option("--rank", o->rank, "The processes of this rank on this machine")
      .check(nonNegative())
      .excludes(pids)
      .excludes(all);
  all.excludes(pids);
  command.flag("--native", o->native, "Also native frames; stops each thread for less than a millisecond");
  command.flag("--json", o->json, "Print JSON; null means unknown");
  command.footer(
      "The process is not stopped and needs no preparation: its memory is read from outside. This also works while it\n"
      "holds the GIL, hangs in a driver call or is stopped. Python 3.8 to 3.14. Your user must be the process's, or "
      "root.\n\n"
      "Examples:  tracesmith backtrace --native $(pgrep -f train.py | head -1)\n           tracesmith backtrace --all");
  command.run(
      [o]() -> Status {
        if (o->pids.empty() && !o->all && o->rank < 0) return Status::invalid("name a process, --rank or --all");
        return {};
      },
      [o] { return o->pids.size() == 1 ? runOne(*o) : runMany(*o); });
}

}  // namespace tracesmith::cli
