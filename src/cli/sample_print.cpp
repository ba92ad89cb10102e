#include "cli/sample_print.hpp"

#include <algorithm>
#include <cstdio>

#include "base/count.hpp"
#include "base/text.hpp"
#include "cli/terminal.hpp"

namespace tracesmith::cli {
namespace {

using namespace trace;

constexpr size_t kMost = 12;  // functions of a list

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part);
  return text;
}

std::string fixed(double v, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, v);
  return text;
}

double divided(uint64_t part, double whole) { return whole > 0 ? static_cast<double>(part) / whole : 0; }

void printFunctions(const FlameTree& tree, size_t state, double rate, size_t name_width) {
  const uint64_t all = tree.root().total[state];
  if (all == 0) return;
  std::vector<FunctionTime> found = functionTimes(tree);
  std::erase_if(found, [&](const FunctionTime& f) { return f.total[state] == 0; });
  std::sort(found.begin(), found.end(), [&](const FunctionTime& a, const FunctionTime& b) {
    if (a.self[state] != b.self[state]) return a.self[state] > b.self[state];
    if (a.total[state] != b.total[state]) return a.total[state] > b.total[state];
    return tree.names[a.name] < tree.names[b.name];
  });
  std::string title = state == 0 ? "On CPU" : "Waiting";
  if (rate > 0) title += ", " + fixed(static_cast<double>(all) / rate, 1) + " s of threads";
  std::printf("\n%s:\n", title.c_str());
  std::vector<std::vector<std::string>> rows = {{"self", "total", "function"}};
  for (size_t i = 0; i < std::min(found.size(), kMost); ++i)
    rows.push_back({percent(divided(found[i].self[state], static_cast<double>(all))),
                    percent(divided(found[i].total[state], static_cast<double>(all))),
                    shorten(printable(tree.names[found[i].name]), name_width)});
  std::printf("%s", tableText(rows, "  ").c_str());
  if (found.size() > kMost) std::printf("  … and %zu more\n", found.size() - kMost);
}

void printDifferences(const FlameTree& tree, size_t name_width) {
  std::vector<FunctionTime> found = functionTimes(tree);
  const auto shareOf = [&](const FunctionTime& f, size_t k) { return divided(f.self[k], tree.looks[k]); };
  const auto difference = [&](const FunctionTime& f) { return shareOf(f, 1) - shareOf(f, 0); };
  std::erase_if(found, [&](const FunctionTime& f) { return f.self[0] + f.self[1] == 0; });
  std::sort(found.begin(), found.end(), [&](const FunctionTime& a, const FunctionTime& b) {
    const double x = std::abs(difference(a)), y = std::abs(difference(b));
    return x != y ? x > y : tree.names[a.name] < tree.names[b.name];
  });
  const std::string a = "rank " + std::to_string(tree.compared->first),
                    b = "rank " + std::to_string(tree.compared->second);
  std::printf("\nWhere %s and %s differ most, as a share of their time (self):\n", a.c_str(), b.c_str());
  std::vector<std::vector<std::string>> rows = {{a, b, "difference", "function"}};
  for (size_t i = 0; i < std::min(found.size(), kMost); ++i)
    rows.push_back({percent(shareOf(found[i], 0)), percent(shareOf(found[i], 1)), percent(difference(found[i])),
                    shorten(printable(tree.names[found[i].name]), name_width)});
  std::printf("%s", tableText(rows, "  ").c_str());
}

void printNotes(const SampleReport& r) {
  uint64_t missed = 0, looks = 0;
  for (const StackCounts::Process& p : r.counts.processes) {
    missed += p.missed;
    looks += p.looks;
  }
  if (missed > 0)
    std::printf("note: %s of %s missed (%s): the machine is too busy, or there is too much to read\n",
                humanCount(missed).c_str(), counted(missed + looks, "look").c_str(),
                percent(divided(missed, static_cast<double>(missed + looks))).c_str());
  if (r.tree.idle_threads > 0)
    std::printf("note: %s left out (--idle shows %s)\n", counted(r.tree.idle_threads, "idle thread").c_str(),
                r.tree.idle_threads == 1 ? "it" : "them");
  if (r.refused > 0)
    std::printf("note: %s not be read: run as root\n",
                counted(r.refused, "more Python process may", "more Python processes may").c_str());
  if (!r.sampling) return;
  for (size_t i = 0; i < r.counts.processes.size(); ++i) {
    const process::SampledProcess& p = r.sampling->processes()[i];
    const std::string who = "process " + std::to_string(r.counts.processes[i].pid);
    if (p.threads_missed > 0)
      std::printf("note: %s: %s of single threads missed: they changed too fast, or did not stop\n", who.c_str(),
                  counted(p.threads_missed, "sample").c_str());
    if (p.ended) std::printf("note: %s ended meanwhile\n", who.c_str());
    if (!p.note.empty()) std::printf("note: %s: %s\n", who.c_str(), printable(p.note).c_str());
  }
}

}  // namespace

std::string sampleText(const StackCounts& counts) {
  std::string out;
  if (counts.processes.size() == 1)
    out = (counts.processes[0].rank ? "rank " + std::to_string(*counts.processes[0].rank) + ", process " : "process ") +
          std::to_string(counts.processes[0].pid);
  else
    out = counted(counts.processes.size(), "process", "processes");
  if (counts.seconds > 0) out += " for " + fixed(counts.seconds, 1) + " s";
  if (counts.rate > 0) out += " at " + fixed(counts.rate, counts.rate < 10 ? 1 : 0) + " Hz";
  return out + ", " + counted(counts.samples(), "sample") + " of " + counted(counts.threads.size(), "thread");
}

void printSample(const SampleReport& r, bool functions) {
  std::printf("Sampled %s\n", printable(sampleText(r.counts)).c_str());
  if (functions) {
    const size_t width = std::max<size_t>(terminalWidth(), 50);
    if (r.tree.compared) {
      printDifferences(r.tree, width - 36);
    } else {
      for (const size_t state : {0, 1}) printFunctions(r.tree, state, r.counts.rate, width - 22);
    }
    std::printf("\n");
  }
  printNotes(r);
  if (r.sampling && r.counts.seconds > 0)
    std::printf("Sampling took %s of a core\n", percent(r.sampling->cpuSeconds() / r.counts.seconds).c_str());
  for (const std::string& path : r.outputs) std::printf("wrote %s\n", path.c_str());
  if (r.outputs.empty())
    std::printf("To see who calls them, add -o flame.svg and open it in a browser; -o stacks.sbt keeps all samples\n");
}

std::string sampleJson(const SampleReport& r) {
  std::string out;
  JsonWriter w(out);
  const bool compared = r.tree.compared.has_value();
  w.beginObject().field("seconds", r.counts.seconds).field("rate", r.counts.rate).field("samples", r.counts.samples());
  if (r.sampling) w.field("sampler_cpu_seconds", r.sampling->cpuSeconds());
  w.field("idle_threads_left_out", r.tree.idle_threads).field("not_permitted", r.refused);
  w.field("simulated", r.counts.simulated).key("processes").beginArray();
  for (size_t i = 0; i < r.counts.processes.size(); ++i) {
    const StackCounts::Process& p = r.counts.processes[i];
    w.beginObject().field("pid", p.pid).key("rank");
    p.rank ? w.value(*p.rank) : w.null();
    w.field("node", p.node).field("command", p.command).field("looks", p.looks);
    if (r.sampling) {
      const process::SampledProcess& s = r.sampling->processes()[i];
      w.field("missed", p.missed).field("threads_missed", s.threads_missed).field("ended", s.ended);
      for (const auto& [key, text] : {std::pair("python_version", &s.python_version), std::pair("problem", &s.problem),
                                      std::pair("note", &s.note)}) {
        w.key(key);
        text->empty() ? w.null() : w.value(*text);
      }
    }
    w.endObject();
  }
  w.endArray().key("functions").beginArray();
  std::vector<FunctionTime> found = functionTimes(r.tree);
  std::erase_if(found, [](const FunctionTime& f) { return f.total[0] + f.total[1] == 0; });
  std::sort(found.begin(), found.end(), [&](const FunctionTime& a, const FunctionTime& b) {
    const uint64_t x = a.self[0] + a.self[1], y = b.self[0] + b.self[1];
    return x != y ? x > y : r.tree.names[a.name] < r.tree.names[b.name];
  });
  const std::string first = compared ? "rank_" + std::to_string(r.tree.compared->first) : "on_cpu";
  const std::string second = compared ? "rank_" + std::to_string(r.tree.compared->second) : "waiting";
  for (const FunctionTime& f : found) {
    w.beginObject().field("function", r.tree.names[f.name]);
    for (const auto& [key, values] : {std::pair("self", &f.self), std::pair("total", &f.total)})
      w.key(key).beginObject().field(first, (*values)[0]).field(second, (*values)[1]).endObject();
    w.endObject();
  }
  w.endArray().key("outputs").beginArray();
  for (const std::string& path : r.outputs) w.value(path);
  w.endArray().endObject();
  return out;
}

}  // namespace tracesmith::cli
