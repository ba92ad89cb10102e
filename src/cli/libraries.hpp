// The parts of the program that are libraries of their own, loaded by the commands that need them: SQL (DuckDB), the
// cluster (gRPC), the page (OpenSSL). Everything else works without them.
#pragma once

#include <memory>

#include "tracesmith/common/status.hpp"

namespace tracesmith::query {
class Engine;
}
namespace tracesmith::cluster {
class Library;
}
namespace tracesmith::server {
class Library;
}

namespace tracesmith::cli {

/// A new engine. From any thread.
Result<std::unique_ptr<query::Engine>> loadQueryEngine();
Result<cluster::Library*> loadCluster();
Result<server::Library*> loadServer();

}  // namespace tracesmith::cli
