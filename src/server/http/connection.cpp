#include "server/http/connection.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "server/http/limits.hpp"

namespace tracesmith::server {
namespace {

std::string tlsReason() {
  char text[256] = "unknown reason";
  if (const unsigned long code = ::ERR_get_error()) ::ERR_error_string_n(code, text, sizeof text);
  ::ERR_clear_error();
  return text;
}

void addressOf(const sockaddr_storage& address, std::string& ip, int& port) {
  char host[NI_MAXHOST], service[NI_MAXSERV];
  const socklen_t size = address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return;
  ip = host;
  port = std::atoi(service);
}

}  // namespace

Result<std::unique_ptr<Tls>> Tls::open(const access::SecurityOptions& s) {
  if (s.tls_cert.empty() && s.tls_key.empty() && s.tls_ca.empty()) return std::unique_ptr<Tls>();
  if (s.tls_cert.empty() || s.tls_key.empty()) return Status::invalid("TLS needs both --tls-cert and --tls-key");
  auto tls = std::make_unique<Tls>();
  tls->context_ = ::SSL_CTX_new(::TLS_server_method());
  if (!tls->context_) return Status::io("TLS cannot be set up: " + tlsReason());
  ::SSL_CTX_set_min_proto_version(tls->context_, TLS1_2_VERSION);
  ::SSL_CTX_set_mode(tls->context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  ::SSL_CTX_set_session_cache_mode(tls->context_, SSL_SESS_CACHE_OFF);
  if (::SSL_CTX_use_certificate_chain_file(tls->context_, s.tls_cert.c_str()) != 1)
    return Status::invalid("cannot use the certificate " + s.tls_cert + ": " + tlsReason());
  if (::SSL_CTX_use_PrivateKey_file(tls->context_, s.tls_key.c_str(), SSL_FILETYPE_PEM) != 1)
    return Status::invalid("cannot use the key " + s.tls_key + ": " + tlsReason());
  if (!s.tls_ca.empty()) {
    if (::SSL_CTX_load_verify_locations(tls->context_, s.tls_ca.c_str(), nullptr) != 1)
      return Status::invalid("cannot use the authority " + s.tls_ca + ": " + tlsReason());
    ::SSL_CTX_set_verify(tls->context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return tls;
}

Tls::~Tls() { ::SSL_CTX_free(context_); }

Connection::Connection(socket_t socket) : socket_(socket) {
  ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Connection::~Connection() {
  if (!ssl_) return;
  ::SSL_shutdown(ssl_);
  ::SSL_free(ssl_);
}

bool Connection::wait(short events, Clock::time_point until) const {
  pollfd p{socket_, events, 0};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    const int n = ::poll(&p, 1, static_cast<int>(std::max<int64_t>(0, left)));
    if (n > 0) return true;
    if (n == 0 || errno != EINTR) return false;
  }
}

/// Repeats a call of OpenSSL until it did something, or the time is over.
template <typename Do>
ssize_t Connection::tls(Do action, Clock::time_point until) {
  for (;;) {
    ::ERR_clear_error();
    const int n = action();
    if (n > 0) return n;
    const int error = ::SSL_get_error(ssl_, n);
    if (error == SSL_ERROR_ZERO_RETURN) return 0;
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return -1;
    if (!wait(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, until)) return -1;
  }
}

bool Connection::handshake(const Tls& tls_context) {
  ssl_ = ::SSL_new(tls_context.context());
  if (!ssl_ || ::SSL_set_fd(ssl_, socket_) != 1) return false;
  return tls([&] { return ::SSL_accept(ssl_); }, Clock::now() + kRequestTime) > 0;
}

bool Connection::waitForRequest(std::chrono::milliseconds idle) {
  if (!(ssl_ && ::SSL_pending(ssl_) > 0) && !wait(POLLIN, Clock::now() + idle)) return false;
  deadline_ = Clock::now() + kRequestTime;
  left_ = kHeaderBytes + kBodyBytes;
  head_.clear();
  in_head_ = true;
  return true;
}

bool Connection::is_readable() const { return wait(POLLIN, deadline_); }
bool Connection::is_writable() const { return wait(POLLOUT, Clock::now() + kWriteTime); }

ssize_t Connection::read(char* data, size_t size) {
  if (left_ == 0) return -1;
  size = std::min(size, left_);
  ssize_t n;
  if (ssl_) {
    n = tls([&] { return ::SSL_read(ssl_, data, static_cast<int>(size)); }, deadline_);
  } else {
    if (!wait(POLLIN, deadline_)) return -1;
    n = ::recv(socket_, data, size, 0);
  }
  if (n <= 0) return n;
  left_ -= static_cast<size_t>(n);
  if (in_head_) {
    head_.append(data, static_cast<size_t>(n));  // the library reads it byte by byte
    in_head_ = !head_.ends_with("\r\n\r\n");
  }
  return n;
}

ssize_t Connection::write(const char* data, size_t size) {
  const auto until = Clock::now() + kWriteTime;
  if (size == 0) return 0;
  if (ssl_)
    return tls([&] { return ::SSL_write(ssl_, data, static_cast<int>(std::min<size_t>(size, 1 << 20))); }, until);
  if (!wait(POLLOUT, until)) return -1;
  return ::send(socket_, data, size, MSG_NOSIGNAL);
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0) addressOf(address, ip, port);
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0) addressOf(address, ip, port);
}

}  // namespace tracesmith::server
