#include "cluster/rpc.hpp"

#include <chrono>
#include <fstream>
#include <sstream>

namespace tracesmith::cluster {
namespace {

Result<std::string> readPem(const std::string& path) {
  std::ifstream in(path);
  if (!in) return Status::io("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

Result<std::shared_ptr<grpc::ServerCredentials>> serverCredentials(const SecurityOptions& s) {
  if (s.tls_cert.empty() && s.tls_key.empty() && s.tls_ca.empty()) return grpc::InsecureServerCredentials();
  if (s.tls_cert.empty() || s.tls_key.empty()) return Status::invalid("TLS needs both --tls-cert and --tls-key");
  Result<std::string> cert = readPem(s.tls_cert), key = readPem(s.tls_key);
  if (!cert) return cert.status();
  if (!key) return key.status();
  grpc::SslServerCredentialsOptions options(s.tls_ca.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_key_cert_pairs.push_back({*key, *cert});
  if (!s.tls_ca.empty()) {
    Result<std::string> ca = readPem(s.tls_ca);
    if (!ca) return ca.status();
    options.pem_root_certs = *ca;
  }
  return grpc::SslServerCredentials(options);
}

Result<std::shared_ptr<grpc::Channel>> openChannel(const std::string& address, const SecurityOptions& s) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!s.tls_ca.empty() || !s.tls_cert.empty()) {
    grpc::SslCredentialsOptions options;
    auto load = [](const std::string& path, std::string& into) -> Status {
      if (path.empty()) return {};
      Result<std::string> text = readPem(path);
      if (!text) return text.status();
      into = *text;
      return {};
    };
    TS_TRY(load(s.tls_ca, options.pem_root_certs));
    TS_TRY(load(s.tls_cert, options.pem_cert_chain));
    TS_TRY(load(s.tls_key, options.pem_private_key));
    credentials = grpc::SslCredentials(options);
  }
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

void addToken(grpc::ClientContext& context, const std::string& token) {
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
}

void setDeadline(grpc::ClientContext& context, int seconds) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(seconds));
}

grpc::Status toGrpc(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return grpc::Status::OK;
    case Code::kInvalid:
      return {grpc::StatusCode::FAILED_PRECONDITION, status.message()};
    case Code::kNotFound:
      return {grpc::StatusCode::NOT_FOUND, status.message()};
    case Code::kExhausted:
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, status.message()};
    default:
      return {grpc::StatusCode::INTERNAL, status.message()};
  }
}

Status fromGrpc(const grpc::Status& status, const std::string& what) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return {};
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Status::io(what + ": " + status.error_message());
    case grpc::StatusCode::NOT_FOUND:
      return Status::notFound(status.error_message());
    case grpc::StatusCode::FAILED_PRECONDITION:
      return Status::invalid(status.error_message());
    case grpc::StatusCode::UNIMPLEMENTED:
      return Status::unsupported(what + ": what listens there does not know this request");
    default:
      return Status::io(status.error_message());
  }
}

Result<std::unique_ptr<grpc::Server>> startServer(grpc::Service& service, const std::string& host, uint16_t& port,
                                                  const SecurityOptions& security) {
  Result<std::shared_ptr<grpc::ServerCredentials>> credentials = serverCredentials(security);
  if (!credentials) return credentials.status();
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("tracesmith");
  quota.Resize(512u << 20);
  quota.SetMaxThreads(64);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  int got = 0;
  const Address address{host, port};
  builder.AddListeningPort(address.text(), *credentials, &got);
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server || got == 0)
    return Status::io("cannot listen on " + address.text() +
                      ": the port is in use, or the address is not this machine's");
  port = static_cast<uint16_t>(got);
  return server;
}

std::string peerHost(const std::string& peer) {
  const size_t first = peer.find(':'), last = peer.rfind(':');
  if (first == std::string::npos || last <= first) return peer;
  std::string host = peer.substr(first + 1, last - first - 1);
  if (host.starts_with("%5B")) host = host.substr(3, host.size() - 6);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  return host;
}

}  // namespace tracesmith::cluster
