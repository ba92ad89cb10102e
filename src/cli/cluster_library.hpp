// Loads libtracesmith_cluster.so when a cluster command is given. Everything else works without it and without gRPC.
#pragma once

#include "cluster/api.hpp"

namespace tracesmith::cli {

/// The library beside the program (../lib), or where the loader finds it; it stays loaded.
Result<cluster::Library*> loadCluster();

}  // namespace tracesmith::cli
