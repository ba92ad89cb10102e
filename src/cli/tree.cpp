#include "cli/tree.hpp"

namespace tracesmith::cli {

std::unique_ptr<CLI::App> makeCommands(Run& run) {
  auto app =
      std::make_unique<CLI::App>("TraceSmith shows what every GPU of a cluster did, on one clock.", "tracesmith");
  app->set_version_flag("--version", "tracesmith " TRACESMITH_VERSION);
  app->require_subcommand(1);
  app->footer(
      "Example:  tracesmith run -o job.sbt -- torchrun train.py && tracesmith analyze job.sbt\nHelp on a command:  "
      "tracesmith COMMAND --help");
  addRun(*app, run);
  addRecord(*app, run);
  addImport(*app, run);
  addExport(*app, run);
  addInfo(*app, run);
  addView(*app, run);
  addQuery(*app, run);
  addAnalyze(*app, run);
  addReport(*app, run);
  addDiff(*app, run);
  addSynth(*app, run);
  addDevices(*app, run);
  addTopo(*app, run);
  addTop(*app, run);
  addExporter(*app, run);
  addBench(*app, run);
  addCluster(*app, run);
  return app;
}

}  // namespace tracesmith::cli
