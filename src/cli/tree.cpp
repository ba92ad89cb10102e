#include "cli/tree.hpp"

#include "cli/commands.hpp"

namespace tracesmith::cli {

std::unique_ptr<Program> makeProgram() {
  auto program = std::make_unique<Program>(
      "tracesmith", "TraceSmith shows what every GPU of a cluster did, on one clock.", TRACESMITH_VERSION);
  Command& app = program->root();
  app.needsCommand();
  app.footer(
      "Example:  tracesmith run -o job.sbt -- torchrun train.py && tracesmith analyze job.sbt\nHelp on a command:  "
      "tracesmith help COMMAND");
  addRun(app);
  addRecord(app);
  addImport(app);
  addExport(app);
  addInfo(app);
  addView(app);
  addQuery(app);
  addAnalyze(app);
  addReport(app);
  addDiff(app);
  addPlaybook(app);
  addRuns(app);
  addSynth(app);
  addDevices(app);
  addTopo(app);
  addTop(app);
  addPs(app);
  addBacktrace(app);
  addSample(app);
  addAttach(app);
  addDetach(app);
  addConfig(app);
  addEval(app);
  addRdma(app);
  addExporter(app);
  addBench(app);
  addCluster(app);
  addMcp(app);
  return program;
}

}  // namespace tracesmith::cli
