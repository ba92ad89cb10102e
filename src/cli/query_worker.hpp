// The process in which a server runs a query of somebody else.
#pragma once

namespace tracesmith::cli {

/// Whether the program was started for that: not a command for users, so that no help shows it.
bool isQueryWorker(int argc, char** argv);
int runQueryWorker(int argc, char** argv);

}  // namespace tracesmith::cli
