#include <cstdio>

#include "cli/commands.hpp"

int main(int argc, char** argv) {
  using namespace tracesmith::cli;
  CLI::App app("TraceSmith shows what every GPU of a cluster did, on one clock.", "tracesmith");
  app.set_version_flag("--version", "tracesmith " TRACESMITH_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Example:  tracesmith run -o job.sbt -- torchrun train.py && tracesmith analyze job.sbt\nHelp on a command:  "
      "tracesmith COMMAND --help");
  Run run;
  addRun(app, run);
  addRecord(app, run);
  addImport(app, run);
  addExport(app, run);
  addInfo(app, run);
  addView(app, run);
  addQuery(app, run);
  addAnalyze(app, run);
  addReport(app, run);
  addDiff(app, run);
  addSynth(app, run);
  addDevices(app, run);
  addTopo(app, run);
  addTop(app, run);
  addExporter(app, run);
  addBench(app, run);
  addCluster(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "tracesmith: %s (see tracesmith --help)\n", error.what());
    return 2;
  }
  return run();
}
