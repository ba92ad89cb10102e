#include "cli/libraries.hpp"

#include "base/interface_versions.hpp"
#include "base/library.hpp"
#include "query/engine.hpp"

namespace tracesmith::cli {

Result<std::unique_ptr<query::Engine>> loadQueryEngine() {
  Result<query::Engine*> engine =
      loadInterface<query::Engine>({"SQL", "libtracesmith_query.so", "tracesmithCreateQueryEngine", kQueryInterface});
  if (!engine) return engine.status();
  return std::unique_ptr<query::Engine>(*engine);
}

Result<cluster::Library*> loadCluster() {
  // Lazily: most of what a short command costs is looking up the functions of gRPC's fifty libraries, of which it calls
  // few.
  return loadInterface<cluster::Library>({"This command", "libtracesmith_cluster.so", "tracesmithCreateCluster",
                                          kClusterInterface, SharedLibrary::Symbols::lazy});
}

Result<server::Library*> loadServer() {
  return loadInterface<server::Library>(
      {"The page", "libtracesmith_server.so", "tracesmithCreateServer", kServerInterface});
}

}  // namespace tracesmith::cli
