#include "cluster/rpc/rpc.hpp"

#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/text.hpp"
#include "cluster/rpc/certs.hpp"

namespace tracesmith::cluster {
namespace {

constexpr int kHandshakeMs = 20000;    // whoever has said nothing by then is hung up on
constexpr int kMostStreams = 64;       // calls at a time on one connection
constexpr int kMetadataBytes = 16384;  // of a call

struct Pem {
  std::string cert, key, ca;
};

/// The PEM files there are, looked through before anybody else sees them.
Result<Pem> readPem(const access::SecurityOptions& s) {
  if (s.tls_cert.empty() != s.tls_key.empty()) return Status::invalid("TLS needs both --tls-cert and --tls-key");
  Pem pem;
  for (auto [path, text] : {std::pair{&s.tls_cert, &pem.cert}, {&s.tls_key, &pem.key}, {&s.tls_ca, &pem.ca}}) {
    if (path->empty()) continue;
    TS_TRY(path == &s.tls_key ? access::checkPrivate(*path) : checkCertificate(*path));
    std::ifstream in(*path);
    std::ostringstream all;
    all << in.rdbuf();
    *text = all.str();
  }
  return pem;
}

/// gRPC says what OpenSSL and HTTP/2 said; users need to know whose certificate it was, and what to do.
std::string readableReason(const std::string& text) {
  auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  if (has("CERTIFICATE_VERIFY_FAILED") || has("certificate verify failed"))
    return "its certificate is not signed by the authority in --tls-ca, or has expired";
  if (has("Hostname Verification Check failed"))
    return "its certificate is for other hosts (tracesmith cluster certs --host)";
  if (has("WRONG_VERSION_NUMBER") || has("wrong version number")) return "it does not speak TLS";
  if (has("failed to connect") && (has("Socket closed") || has("Broken pipe") || has("reset by peer")))
    return "it closed the connection: it requires TLS with a certificate it accepts (--tls-ca, --tls-cert, --tls-key)";
  if (has("http1.x server") || has("parsing HTTP/2") || has("Failed parsing HTTP"))
    return "what listens there is something else. Is this its port (50051 by default), and not the one of its page?";
  if (has("Received http2 header")) return "the server there does not know this request";
  if (has("Connection refused")) return "nothing listens there. Is it running, and is this its port?";
  if (has("DNS resolution failed")) return "there is no host of this name";
  if (has("No route to host") || has("Network is unreachable")) return "no network leads there";
  if (has("Deadline Exceeded") || has("timed out") || has("Timeout"))
    return "no answer in time. Is it overloaded, or does a firewall drop the packets?";
  if (has("eepalive") || has("Ping")) return "it does not answer any more";
  if (has("Socket closed") || has("reset by peer")) return "it closed the connection";
  // Other sentences of gRPC; what is left is one of ours.
  for (const char* part : {"ipv4:", "ipv6:", "unix:", "last error: ", "Stream removed", "RST_STREAM", "GOAWAY",
                           "Endpoint", "recvmsg", "sendmsg", "Broken pipe", "HTTP2", "http2", "channel", "transport"})
    if (has(part)) return "it closed the connection";
  return text;
}

constexpr std::pair<Code, grpc::StatusCode> kGrpcCodes[] = {
    {Code::kOk, grpc::StatusCode::OK},
    {Code::kInvalid, grpc::StatusCode::FAILED_PRECONDITION},
    {Code::kNotFound, grpc::StatusCode::NOT_FOUND},
    {Code::kCorrupt, grpc::StatusCode::DATA_LOSS},
    {Code::kIo, grpc::StatusCode::INTERNAL},
    {Code::kUnsupported, grpc::StatusCode::UNIMPLEMENTED},
    {Code::kExhausted, grpc::StatusCode::RESOURCE_EXHAUSTED},
    {Code::kBusy, grpc::StatusCode::ABORTED},
    {Code::kTimeout, grpc::StatusCode::DEADLINE_EXCEEDED},
    {Code::kCancelled, grpc::StatusCode::CANCELLED},
    {Code::kUnavailable, grpc::StatusCode::UNAVAILABLE},
    {Code::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED},
    {Code::kForbidden, grpc::StatusCode::PERMISSION_DENIED},
};
static_assert(std::size(kGrpcCodes) == kCodes);

}  // namespace

Result<std::shared_ptr<grpc::ServerCredentials>> serverCredentials(const access::SecurityOptions& s) {
  if (s.tls_cert.empty() && s.tls_key.empty() && s.tls_ca.empty()) return grpc::InsecureServerCredentials();
  if (s.tls_cert.empty()) return Status::invalid("a TLS server needs --tls-cert and --tls-key");
  Result<Pem> pem = readPem(s);
  if (!pem) return pem.status();
  grpc::SslServerCredentialsOptions options(s.tls_ca.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_key_cert_pairs.push_back({pem->key, pem->cert});
  options.pem_root_certs = pem->ca;
  return grpc::SslServerCredentials(options);
}

Result<std::shared_ptr<grpc::Channel>> openChannel(const std::string& address, const access::SecurityOptions& s,
                                                   const std::string& through) {
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
  if (!s.tls_ca.empty() || !s.tls_cert.empty() || !s.tls_key.empty()) {
    Result<Pem> pem = readPem(s);
    if (!pem) return pem.status();
    const grpc::SslCredentialsOptions options{pem->ca, pem->key, pem->cert};
    credentials = grpc::SslCredentials(options);
  }
  if (through.empty()) return grpc::CreateCustomChannel(address, credentials, arguments);
  const std::string host = address.substr(0, address.rfind(':'));  // whose certificate it must be
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, address);
  arguments.SetString(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
                      host.starts_with('[') ? host.substr(1, host.size() - 2) : host);
  return grpc::CreateCustomChannel(through, credentials, arguments);
}

void addToken(grpc::ClientContext& context, const std::string& token) {
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
}

void setDeadline(grpc::ClientContext& context, int seconds) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(seconds));
}

grpc::Status toGrpc(const Status& status) {
  if (status) return grpc::Status::OK;
  for (const auto& [ours, theirs] : kGrpcCodes)
    if (ours == status.code()) return {theirs, status.message()};
  return {grpc::StatusCode::INTERNAL, status.message()};
}

Status fromGrpc(const grpc::Status& status, const std::string& what) {
  if (status.ok()) return {};
  Code code = Code::kIo;
  for (const auto& [ours, theirs] : kGrpcCodes)
    if (theirs == status.error_code()) code = ours;
  if (code == Code::kUnsupported && status.error_message().empty())
    return {code, what + ": the server there does not know this request"};
  // What we answer has a code of ours: UNKNOWN is gRPC's own.
  const bool unheard = code == Code::kUnavailable || code == Code::kTimeout || code == Code::kUnsupported ||
                       status.error_code() == grpc::StatusCode::UNKNOWN;
  return {code, unheard ? what + ": " + readableReason(status.error_message()) : status.error_message()};
}

Result<std::unique_ptr<grpc::Server>> startServer(grpc::Service& service, const std::string& host, uint16_t& port,
                                                  const access::SecurityOptions& security) {
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
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  int got = 0;
  const access::Address address{host, port};
  builder.AddListeningPort(address.text(), *credentials, &got);
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server || got == 0)
    return Status::io("cannot listen on " + address.text() +
                      ": the port is in use, or the address does not belong to this machine");
  port = static_cast<uint16_t>(got);
  return server;
}

access::Peer peerOf(const std::string& text) {
  access::Peer peer{text, text, 0};
  const size_t first = text.find(':'), last = text.rfind(':');
  if (first == std::string::npos || last <= first) return peer;
  std::string host = text.substr(first + 1, last - first - 1);
  if (host.starts_with("%5B")) host = host.substr(3, host.size() - 6);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  peer.host = host;
  int64_t port = 0;
  if (parseInt(text.substr(last + 1), port) && port > 0 && port < 65536) peer.port = static_cast<uint16_t>(port);
  return peer;
}

std::string tokenOf(const grpc::ServerContextBase& context) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find("authorization");
  if (it == metadata.end()) return {};
  const std::string_view value(it->second.data(), it->second.size());
  return value.starts_with("Bearer ") ? std::string(value.substr(7)) : std::string();
}

access::Role neededFor(const pb::GetProcessesRequest& request) {
  if (request.has_action() || request.locals()) return access::Role::kAdmin;
  return request.native() || request.set_size() > 0 || request.has_sample() ? access::Role::kOperator
                                                                            : access::Role::kViewer;
}

std::optional<Deed> deedOf(const ProcessQuery& query) {
  Deed deed;
  if (query.action) {
    deed = {query.action->name.substr(0, 16), query.action->code.substr(0, 512)};
  } else if (!query.set.empty()) {
    deed.what = "config";
    for (const std::string& word : query.set) deed.detail += (deed.detail.empty() ? "" : " ") + word;
  } else if (query.locals) {
    deed.what = "locals";
  } else {
    return std::nullopt;
  }
  std::string whom;
  for (const std::string& node : query.nodes) whom += " node " + node;
  for (const int64_t rank : query.ranks) whom += " rank " + std::to_string(rank);
  for (const int64_t pid : query.pids) whom += " pid " + std::to_string(pid);
  whom = whom.empty() ? " all" : whom.substr(0, 256);
  deed.detail = deed.detail.empty() ? whom.substr(1) : deed.detail.substr(0, 512) + ":" + whom;
  return deed;
}

}  // namespace tracesmith::cluster
