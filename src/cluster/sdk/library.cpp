// The entry of libtracesmith_cluster.so.
#include <grpc/support/log.h>

#include <cstdlib>
#include <cstring>

#include "base/interface_versions.hpp"
#include "base/library.hpp"
#include "cluster/agent/agent.hpp"
#include "cluster/master/service.hpp"
#include "cluster/rpc/certs.hpp"
#include "cluster/rpc/client.hpp"
#include "sink/clickhouse.hpp"

namespace tracesmith::cluster {
namespace {

class LibraryImpl final : public Library {
 public:
  Result<std::unique_ptr<Server>> startAgent(const AgentOptions& options) override { return startAgentServer(options); }
  Result<std::unique_ptr<Server>> startMaster(const MasterOptions& options) override {
    return startMasterServer(options);
  }
  Result<std::unique_ptr<Client>> connect(const ClientOptions& options) override { return connectClient(options); }
  Result<std::string> askClickHouse(const std::string& address, const std::string& sql) override {
    Result<std::unique_ptr<sink::ClickHouse>> server = sink::ClickHouse::open(address, {});
    if (!server) return server.status();
    return (*server)->read(sql);
  }
  Result<std::vector<std::string>> makeCertificates(const CertificateOptions& options) override {
    return cluster::makeCertificates(options);
  }
};

}  // namespace
}  // namespace tracesmith::cluster

extern "C" __attribute__((visibility("default"))) tracesmith::cluster::Library* tracesmithCreateCluster(
    const char* version, const char** why) {
  if (std::strcmp(version, tracesmith::kClusterInterface) != 0) {
    *why = tracesmith::kOtherVersion;
    return nullptr;
  }
  // What goes wrong we tell ourselves, in one line; a port scanner is no reason to write at all.
  if (!std::getenv("GRPC_VERBOSITY")) gpr_set_log_function([](gpr_log_func_args*) {});
  static tracesmith::cluster::LibraryImpl library;
  return &library;
}
