// tracesmith analyze: who made everybody wait, and why.
#include <cstdio>
#include <memory>

#include "analysis/comm_rules.hpp"
#include "base/text.hpp"
#include "cli/analyze_print.hpp"
#include "cli/commands.hpp"
#include "cli/outcome.hpp"
#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  std::string file;
  analysis::AnalyzeOptions analyze;
  AnalyzePrint print;
  bool json = false, strict = false, show_rules = false;
};

int run(Options o) {
  if (o.show_rules) {
    std::fwrite(analysis::CommRules::builtIn().data(), 1, analysis::CommRules::builtIn().size(), stdout);
    return 0;
  }
  if (o.file.empty()) return usage("analyze", "say which trace: tracesmith analyze FILE.sbt");
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(o.file);
  if (!reader) return fail(reader.status());
  Result<analysis::Analysis> result = analysis::analyze(**reader, o.analyze);
  if (!result) return fail(result.status());
  const std::string text = o.json ? analysis::toJson(*result, o.file) + "\n" : analyzeText(*result, o.print);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    return fail(Status::io("cannot write the result"));
  return finish(**reader, o.strict);
}

}  // namespace

void addAnalyze(CLI::App& app, Run& run_later) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("analyze", "Say who made everybody wait, and why");
  command->add_option("file", o->file, "Trace to analyze")->type_name("FILE.sbt");
  command->add_flag("--ranks", o->print.ranks, "Also a line for every rank");
  command->add_flag("--steps", o->print.steps, "Also a line for every step");
  command->add_flag("--comm", o->print.comm, "Also who sends how much to whom");
  command->add_flag("--json", o->json, "Print everything as JSON (docs/analysis.md)");
  command->add_option("--comm-rules", o->analyze.comm_rules, "More rules that say which kernels are communication")
      ->type_name("FILE");
  command->add_flag("--show-comm-rules", o->show_rules, "Print the built-in rules and stop");
  command->add_option("--threads", o->analyze.threads, "Threads; 0: all cores")->check(CLI::Range(0, 256));
  command->add_flag("--strict", o->strict, "Fail if a block of the trace is damaged");
  command->footer(
      "The verdict comes first, then the evidence: what each rank cost the others, slow links, where the time of a\n"
      "step goes, the critical path over all ranks, and what would be if. What cannot be known is said.\n\n"
      "Example:  tracesmith synth -o job.sbt && tracesmith analyze job.sbt");
  command->callback([o, &run_later] { run_later = [o] { return run(*o); }; });
}

}  // namespace tracesmith::cli
