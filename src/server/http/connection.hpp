// One connection: bytes with deadlines, over TCP or TLS.
#pragma once

#include <httplib.h>

#include <chrono>
#include <memory>
#include <string>

#include "cluster/api.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::server {

/// Certificates and what is asked of clients; one for all connections.
class Tls {
 public:
  static Result<std::unique_ptr<Tls>> open(const access::SecurityOptions& security);
  ~Tls();
  SSL_CTX* context() const { return context_; }

 private:
  SSL_CTX* context_ = nullptr;
};

/// A request has to be there within a time, however slowly it drips, and may not be larger than a limit: the library
/// below knows only the pause between two bytes.
class Connection final : public httplib::Stream {
 public:
  /// Does not own the socket.
  explicit Connection(socket_t socket);
  ~Connection() override;

  bool handshake(const Tls& tls);
  /// Waits for the first byte of a request; then the time for it runs.
  bool waitForRequest(std::chrono::milliseconds idle);

  /// The head of the current request, as it came.
  const std::string& head() const { return head_; }

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* data, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool wait(short events, Clock::time_point until) const;
  template <typename Do>
  ssize_t tls(Do action, Clock::time_point until);

  const socket_t socket_;
  SSL* ssl_ = nullptr;
  Clock::time_point deadline_{};
  size_t left_ = 0;  // bytes the request may still have
  std::string head_;
  bool in_head_ = false;
};

}  // namespace tracesmith::server
