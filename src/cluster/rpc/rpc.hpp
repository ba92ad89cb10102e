// What all users of gRPC share: credentials, tokens, and our Status over the wire.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "access/guard.hpp"
#include "access/names.hpp"
#include "cluster/api.hpp"
#include "tracesmith_cluster.grpc.pb.h"

namespace tracesmith::cluster {

namespace pb = ::tracesmith::cluster;  // says in the code what is generated: the messages live in this namespace

constexpr int kMaxMessageBytes = 72 << 20;  // the largest block, and some
constexpr const char* kNodeKey = "tracesmith-node";

Result<std::shared_ptr<grpc::ServerCredentials>> serverCredentials(const access::SecurityOptions& security);
/// `through`: where gRPC connects instead, to reach that address.
Result<std::shared_ptr<grpc::Channel>> openChannel(const std::string& address, const access::SecurityOptions& security,
                                                   const std::string& through = {});
void addToken(grpc::ClientContext& context, const std::string& token);
void setDeadline(grpc::ClientContext& context, int seconds);

grpc::Status toGrpc(const Status& status);
/// `what` begins the sentence where the other side could not be reached: "cannot reach the master at …".
Status fromGrpc(const grpc::Status& status, const std::string& what);

/// Starts a server on host:port; `port` becomes the one it got.
Result<std::unique_ptr<grpc::Server>> startServer(grpc::Service& service, const std::string& host, uint16_t& port,
                                                  const access::SecurityOptions& security);
/// Who "ipv4:127.0.0.1:1234" is.
access::Peer peerOf(const std::string& text);
/// The token a call brought; empty: none.
std::string tokenOf(const grpc::ServerContextBase& context);

/// Whoever may view may ask about processes. To stop threads, to sample them or to change what is recorded takes more;
/// to run code or to see values of variables takes most.
access::Role neededFor(const pb::GetProcessesRequest& request);
/// For the audit log.
struct Deed {
  std::string what;    ///< config, eval, …
  std::string detail;  ///< which settings or code, and of whom
};
/// Nothing: a question that changes nothing and tells no values.
std::optional<Deed> deedOf(const ProcessQuery& query);

}  // namespace tracesmith::cluster
