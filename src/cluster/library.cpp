// The entry of libtracesmith_cluster.so.
#include <cstring>

#include "cluster/agent.hpp"
#include "cluster/client.hpp"
#include "cluster/service.hpp"

namespace tracesmith::cluster {
namespace {

class LibraryImpl final : public Library {
 public:
  Result<std::unique_ptr<Server>> startAgent(const AgentOptions& options) override { return startAgentServer(options); }
  Result<std::unique_ptr<Server>> startMaster(const MasterOptions& options) override {
    return startMasterServer(options);
  }
  Result<std::unique_ptr<Client>> connect(const ClientOptions& options) override { return connectClient(options); }
};

}  // namespace
}  // namespace tracesmith::cluster

extern "C" __attribute__((visibility("default"))) tracesmith::cluster::Library* tracesmithCreateCluster(
    const char* version) {
  if (std::strcmp(version, tracesmith::cluster::kLibraryVersion) != 0) return nullptr;
  static tracesmith::cluster::LibraryImpl library;
  return &library;
}
