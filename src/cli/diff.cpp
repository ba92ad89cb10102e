// tracesmith diff: what changed between two traces, on which ranks, how sure.
#include "tracesmith/analysis/diff.hpp"

#include <cmath>
#include <cstdio>
#include <memory>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/outcome.hpp"
#include "cli/terminal.hpp"
#include "cli/trace_file.hpp"

namespace tracesmith::cli {
namespace {

using namespace analysis;
using trace::kNull;

struct Options {
  std::string a, b;
  DiffOptions diff;
  bool json = false, strict = false;
};

std::string number(const char* format, double v) {
  if (!std::isfinite(v)) return "-";
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, v);
  return buffer;
}

std::string time(double us) { return std::isfinite(us) ? humanNs(us * 1000) : "unknown"; }

void listNames(const char* what, const std::vector<std::string>& names, std::string& out) {
  if (names.empty()) return;
  out += std::string("  ") + what + " ";
  for (size_t i = 0; i < names.size() && i < 8; ++i) out += (i ? ", " : "") + shorten(printable(names[i]), 60);
  if (names.size() > 8) out += ", and " + std::to_string(names.size() - 8) + " more";
  out += "\n";
}

std::string text(const Diff& d) {
  std::string out = printable(d.verdict) + "\n";
  for (const std::string& s : d.differs) out += "  differs: " + printable(s) + "\n";
  for (const std::string& s : d.unknowns) out += "  unknown: " + printable(s) + "\n";
  std::vector<std::vector<std::string>> table = {{"of a step", "rank", "before", "after", "change", "sure"}};
  for (const DiffPart& p : d.parts) {
    if (table.size() > 24) break;
    table.push_back({p.what, p.rank == kNull ? "all" : std::to_string(p.rank), humanNs(p.before_us * 1000),
                     humanNs(p.after_us * 1000), number("%+.1f %%", p.change_pct),
                     p.significant ? number("%.0f %%", 100 * p.confidence) : "-"});
  }
  if (table.size() > 1) out += "\n" + tableText(table, "  ");
  if (d.before_startup_us > 0 || d.after_startup_us > 0)
    out += "\nStart-up, not part of the above: " + time(d.before_startup_us) + " before, " + time(d.after_startup_us) +
           " after\n";
  table = {{"before", "after", "count before", "after", "kernel"}};
  for (const DiffName& n : d.names) {
    if (!n.device || table.size() > 12 || std::abs(n.after_us - n.before_us) < 0.001) continue;
    table.push_back({humanNs(n.before_us * 1000), humanNs(n.after_us * 1000), number("%.1f", n.before_count),
                     number("%.1f", n.after_count), shorten(printable(n.name), 70)});
  }
  if (table.size() > 1)
    out += (d.per_step ? "\nKernels, per step and rank\n" : "\nKernels, per rank\n") + tableText(table, "  ");
  const bool device = !(d.ops.gpu.added.empty() && d.ops.gpu.deleted.empty());
  if (device || !d.ops.cpu.added.empty() || !d.ops.cpu.deleted.empty()) {
    out += "\nIn one step of one rank\n";
    listNames("new on the GPU:", d.ops.gpu.added, out);
    listNames("gone from the GPU:", d.ops.gpu.deleted, out);
    listNames("new on the host:", d.ops.cpu.added, out);
    listNames("gone from the host:", d.ops.cpu.deleted, out);
  }
  return out;
}

int run(const Options& o) {
  Result<std::unique_ptr<trace::Reader>> a = openTrace(o.a);
  if (!a) return fail(a.status());
  Result<std::unique_ptr<trace::Reader>> b = openTrace(o.b);
  if (!b) return fail(b.status());
  Result<Diff> result = diff(**a, **b, o.diff);
  if (!result) return fail(result.status());
  const std::string out = o.json ? toJson(*result, o.a, o.b) + "\n" : wrapped(text(*result), textWidth());
  std::fwrite(out.data(), 1, out.size(), stdout);
  const int first = finish(**a, o.strict), second = finish(**b, o.strict);
  return first ? first : second;
}

}  // namespace

void addDiff(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("diff", "Show what changed between two traces");
  addTraceFile(command, "BEFORE", o->a, "Trace to compare with").required();
  addTraceFile(command, "AFTER", o->b, "Trace in which to look for changes").required();
  command.option("--rank", o->diff.rank, "Rank whose events are compared by name (default: the first)");
  command.option("--step", o->diff.step, "Step in which they are compared (default: the first)");
  command.option("--comm-rules", o->diff.comm_rules, "Additional rules for which kernels are communication")
      .type("FILE");
  command.option("--threads", o->diff.threads, "Number of threads; 0 uses all cores").check(range(0, 256));
  command.flag("--json", o->json, "Print everything as JSON (docs/analysis.md)");
  command.flag("--strict", o->strict, "Exit with 1 if a block of a trace is damaged");
  command.footer(
      "Compares how long a step takes, where its time goes and which kernels and operators run, and says which of the\n"
      "changes are more than chance. It also lists how the jobs differ: ranks, GPUs, driver and software.\n\n"
      "Examples:  tracesmith diff yesterday.sbt today.sbt\n"
      "           tracesmith diff --json yesterday.sbt today.sbt | jq '.parts[] | select(.significant)'");
  command.run([o] { return run(*o); });
}

}  // namespace tracesmith::cli
