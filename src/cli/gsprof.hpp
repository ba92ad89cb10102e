// The command line of gswarm's profiler: `tracesmith` started by the name gsprof.
#pragma once

namespace tracesmith::cli {

bool isGsprof(int argc, char** argv);
int runGsprof(int argc, char** argv);

}  // namespace tracesmith::cli
