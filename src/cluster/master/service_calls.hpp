// The calls of the master's gRPC service.
#pragma once

#include <memory>
#include <string>

#include "access/guard.hpp"
#include "cluster/master/master.hpp"
#include "cluster/rpc/rpc.hpp"

namespace tracesmith::cluster {

class MasterService {
 public:
  virtual ~MasterService() = default;
  virtual grpc::Service& calls() = 0;
  /// Who knows it may compare clocks by datagram.
  virtual uint64_t syncKey() const = 0;
  /// Where they listen, once that is known; sync port 0: no datagrams.
  virtual void setPorts(uint16_t port, uint16_t sync_port) = 0;
  /// Dials an agent and asks it to dial us: from then on it comes by itself.
  virtual Result<std::string> invite(const std::string& address) = 0;
};

/// Master and guard must outlive it.
std::unique_ptr<MasterService> makeMasterService(Master& master, access::Guard& guard, const MasterOptions& options);

}  // namespace tracesmith::cluster
