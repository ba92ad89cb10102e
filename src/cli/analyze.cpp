// tracesmith analyze: who made everybody wait, and why.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/count.hpp"
#include "base/progress.hpp"
#include "base/text.hpp"
#include "cli/analyze_print.hpp"
#include "cli/commands.hpp"
#include "cli/outcome.hpp"
#include "cli/terminal.hpp"
#include "cli/trace_file.hpp"
#include "model/communication.hpp"
#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/analysis/hta_critical_path.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  std::string file;
  analysis::AnalyzeOptions analyze;
  AnalyzePrint print;
  bool json = false, strict = false, show_rules = false;
  bool path = false;
  analysis::HtaPathOptions path_of;
};

/// One rank's critical path, as HTA finds it.
int printPath(const trace::Reader& reader, const Options& o) {
  Result<analysis::HtaPath> path = analysis::htaCriticalPath(reader, o.path_of);
  if (!path) return fail(path.status());
  std::string text;
  if (o.json) {
    JsonWriter w(text);
    w.beginObject().key("rank");
    path->rank == trace::kNull ? w.null() : w.value(path->rank);
    w.field("range", path->range).field("instance", path->instance);
    w.field("nodes", static_cast<uint64_t>(path->nodes)).field("events", static_cast<uint64_t>(path->events));
    w.field("edges", static_cast<uint64_t>(path->edges))
        .field("weight_us", path->weight_us)
        .key("bound_by")
        .beginObject();
    for (const auto& [what, us] : path->bound_by) w.field(what, us);
    w.endObject().key("path").beginArray();
    for (const auto& step : path->path)
      w.beginObject().field("name", step.name).field("kind", step.kind).field("us", step.weight_us).endObject();
    w.endArray().endObject();
    text += "\n";
  } else {
    text = "critical path of " + printable(path->range) + ": " +
           humanNs(1000.0 * static_cast<double>(path->weight_us)) + " over " + counted(path->events, "event") + "\n";
    std::vector<std::vector<std::string>> table = {{"time", "share", "bound by"}};
    for (const auto& [what, us] : path->bound_by) {
      char share[32];
      std::snprintf(share, sizeof share, "%.1f %%",
                    100.0 * static_cast<double>(us) / static_cast<double>(std::max<int64_t>(1, path->weight_us)));
      table.push_back({humanNs(1000.0 * static_cast<double>(us)), share, what});
    }
    text += tableText(table, "  ");
    std::stable_sort(path->path.begin(), path->path.end(),
                     [](const auto& a, const auto& b) { return a.weight_us > b.weight_us; });
    table = {{"time", "kind", "longest parts"}};
    for (size_t i = 0; i < path->path.size() && i < 10; ++i)
      table.push_back({humanNs(1000.0 * static_cast<double>(path->path[i].weight_us)), path->path[i].kind,
                       shorten(printable(path->path[i].name), 80)});
    text += "\n" + tableText(table, "  ");
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return finish(reader, o.strict);
}

int run(Options o) {
  if (o.show_rules) {
    std::fputs(model::CommRules::builtIn().c_str(), stdout);
    return 0;
  }
  if (o.file.empty()) return usage("analyze", "no trace given: tracesmith analyze FILE.sbt");
  Result<std::unique_ptr<trace::Reader>> reader = openTrace(o.file);
  if (!reader) return fail(reader.status());
  if (o.path) return printPath(**reader, o);
  std::optional<Progress> progress;
  if (!o.json) progress.emplace("analyzing");
  if (progress) o.analyze.progress = [&](uint64_t done, uint64_t total) { progress->update(done, total); };
  Result<analysis::Analysis> result = analysis::analyze(**reader, o.analyze);
  progress.reset();
  if (!result) return fail(result.status());
  const std::string text =
      o.json ? analysis::toJson(*result, o.file) + "\n" : wrapped(analyzeText(*result, o.print), textWidth());
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    return fail(Status::io("cannot write the result"));
  return finish(**reader, o.strict);
}

}  // namespace

void addAnalyze(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("analyze", "Find the rank or link that made the others wait, and why");
  addTraceFile(command, "FILE", o->file, "Trace to analyze");
  command.flag("--ranks", o->print.ranks, "Also print a line for every rank");
  command.flag("--steps", o->print.steps, "Also print a line for every step");
  command.flag("--comm", o->print.comm, "Also print who sends how much to whom");
  command.flag("--json", o->json, "Print everything as JSON (docs/analysis.md)");
  command.option("--comm-rules", o->analyze.comm_rules, "Additional rules for which kernels are communication")
      .type("FILE");
  command.flag("--show-comm-rules", o->show_rules, "Print the built-in rules and exit");
  Option path =
      command.flag("--critical-path", o->path, "Print the critical path of one rank instead, as HTA computes it");
  command.option("--rank", o->path_of.rank, "Rank of the critical path (default: the first)").needs(path);
  command.option("--range", o->path_of.range, "Only within the range of this name (default: the middle profiler step)")
      .needs(path)
      .type("NAME");
  command.option("--instance", o->path_of.instance, "Which occurrence of the range, counted from 0")
      .needs(path)
      .check(nonNegative());
  command.option("--threads", o->analyze.threads, "Number of threads; 0 uses all cores").check(range(0, 256));
  command.flag("--strict", o->strict, "Exit with 1 if a block of the trace is damaged");
  command.footer(
      "Prints the verdict first, then the evidence: what each rank cost the others, slow links, where the time of "
      "a\nstep goes, the critical path over all ranks, and what the job would gain if something changed. What the "
      "trace\ncannot tell is listed as unknown.\n\nExample:  tracesmith synth -o job.sbt && tracesmith analyze "
      "job.sbt");
  command.run([o] { return run(*o); });
}

}  // namespace tracesmith::cli
