#include "cli/stack_text.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/text.hpp"
#include "cli/terminal.hpp"

namespace tracesmith::cli {

using namespace process;

namespace {

const char* stateName(const std::string& state) {
  switch (state.empty() ? 0 : state[0]) {
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
  if (!f.source.empty()) place += ", " + printable(f.source);
  if (f.line) place += ":" + std::to_string(*f.line);
  if (f.function.empty() && f.address) place += hexadecimal(*f.address);
  if (!place.empty()) line += " (" + place + ")";
  if (f.more > 0) line += ", " + humanCount(f.more + 1) + " times in a row";
  std::printf("%s\n", line.c_str());
  for (const model::FrameVariable& v : f.locals)
    std::printf("      %s = %s\n", printable(v.name).c_str(), printable(v.value).c_str());
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
  if (t.damaged) std::printf("  … not a stack\n");
  if (t.changed) std::printf("  (changed while it was read)\n");
}

std::string onNode(const Stacks& s) { return s.node.empty() ? "" : " on " + printable(s.node); }

}  // namespace

void printFrames(const std::vector<Frame>& frames) {
  for (const Frame& f : frames) print(f);
}

void printStacks(const Stacks& s) {
  std::string line = "Process " + std::to_string(s.pid) + onNode(s) + ": " + shorten(printable(s.command), 200);
  std::printf("%s\n", line.c_str());
  line = s.python_version.empty() ? "not a Python process" : "Python " + s.python_version;
  if (s.rank) line += ", rank " + std::to_string(*s.rank);
  if (!s.job.empty()) line += ", job " + printable(s.job);
  line += ", " + std::to_string(s.threads.size()) + (s.threads.size() == 1 ? " thread" : " threads");
  std::printf("%s\n", line.c_str());
  for (const ThreadStack& t : s.threads) print(t);
  for (const std::string& n : s.notes) std::printf("\nnote: %s\n", printable(n).c_str());
}

std::vector<std::string> jobsOf(const std::vector<Stacks>& processes) {
  std::set<std::string> jobs;
  for (const Stacks& s : processes)
    if (!s.job.empty()) jobs.insert(s.job);
  return {jobs.begin(), jobs.end()};
}

std::string whoText(const StackGroup& g, const std::vector<Stacks>& processes) {
  constexpr size_t kNamed = 8;
  bool ranks = true;
  for (const size_t m : g.members) ranks &= processes[m].rank.has_value();
  std::vector<int64_t> numbers;
  for (const size_t m : g.members) numbers.push_back(ranks ? *processes[m].rank : processes[m].pid);
  std::sort(numbers.begin(), numbers.end());
  const char* one = ranks ? "Rank" : "Process";
  const std::string& job = processes[g.members[0]].job;  // which all of a group have
  const std::string of = job.empty() || jobsOf(processes).size() < 2 ? "" : " of job " + printable(job);
  if (numbers.size() == 1) return std::string(one) + " " + std::to_string(numbers[0]) + of;
  std::string out = std::to_string(numbers.size()) + (ranks ? " ranks (" : " processes (");
  for (size_t i = 0; i < std::min(numbers.size(), kNamed); ++i) out += (i ? ", " : "") + std::to_string(numbers[i]);
  return out + (numbers.size() > kNamed ? ", …)" : ")") + of;
}

void printGroups(const std::vector<Stacks>& processes) {
  const std::vector<StackGroup> groups = groupStacks(processes);
  for (const StackGroup& g : groups)
    std::printf("%s in %s\n", whoText(g, processes).c_str(), printable(whereText(g)).c_str());
  for (const StackGroup& g : groups) {
    const Stacks& first = processes[g.members[0]];
    if (g.thread >= first.threads.size()) continue;
    std::printf("\n%s in %s; the stack of process %lld%s:\n", whoText(g, processes).c_str(),
                printable(whereText(g)).c_str(), static_cast<long long>(first.pid), onNode(first).c_str());
    printFrames(first.threads[g.thread].frames);
  }
}

}  // namespace tracesmith::cli
