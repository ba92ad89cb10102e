// The commands of `tracesmith`, one file each. add…() declares a command, its options and what it does.
#pragma once

#include <string>
#include <vector>

#include "cli/options.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::cli {

void addAnalyze(Command& app);
void addAttach(Command& app);
void addBacktrace(Command& app);
void addBench(Command& app);
void addCluster(Command& app);
void addConfig(Command& app);
void addDetach(Command& app);
void addDevices(Command& app);
void addDiff(Command& app);
void addEval(Command& app);
void addExport(Command& app);
void addExporter(Command& app);
void addImport(Command& app);
void addInfo(Command& app);
void addMcp(Command& app);
void addPlaybook(Command& app);
void addPs(Command& app);
void addQuery(Command& app);
void addRdma(Command& app);
void addRecord(Command& app);
void addReport(Command& app);
void addRun(Command& app);
void addRuns(Command& app);
void addSample(Command& app);
void addSynth(Command& app);
void addTop(Command& app);
void addTopo(Command& app);
void addView(Command& app);

/// Prints "tracesmith: <message>" and returns exit code 1.
int fail(const Status& status);
/// Prints "tracesmith: warning: <message>" unless it is empty.
void warn(const std::string& message);

}  // namespace tracesmith::cli
