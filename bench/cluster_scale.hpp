// Modes of cluster_bench with many nodes.
#pragma once

namespace tracesmith::bench {

int scaleMain(int argc, char** argv);
int captureMain(int argc, char** argv);
int skewMain(int argc, char** argv);

}  // namespace tracesmith::bench
