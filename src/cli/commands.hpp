// The commands of `tracesmith`, one file each. add…() declares a command's options; choosing it sets `run`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::cli {

/// What to do once the command line was understood; returns the exit code.
using Run = std::function<int()>;

void addAnalyze(CLI::App& app, Run& run);
void addBench(CLI::App& app, Run& run);
void addCluster(CLI::App& app, Run& run);
void addDevices(CLI::App& app, Run& run);
void addDiff(CLI::App& app, Run& run);
void addExport(CLI::App& app, Run& run);
void addExporter(CLI::App& app, Run& run);
void addImport(CLI::App& app, Run& run);
void addInfo(CLI::App& app, Run& run);
void addQuery(CLI::App& app, Run& run);
void addRecord(CLI::App& app, Run& run);
void addReport(CLI::App& app, Run& run);
void addRun(CLI::App& app, Run& run);
void addSynth(CLI::App& app, Run& run);
void addTop(CLI::App& app, Run& run);
void addTopo(CLI::App& app, Run& run);
void addView(CLI::App& app, Run& run);

/// What `tracesmith query FILE... SQL` does. `out` empty: standard output.
int queryTraces(const std::vector<std::string>& files, const std::string& sql, const std::string& format,
                const std::string& out);

/// Prints "tracesmith: <message>" and returns exit code 1.
int fail(const Status& status);
/// Prints "tracesmith: warning: <message>" unless it is empty.
void warn(const std::string& message);

}  // namespace tracesmith::cli
