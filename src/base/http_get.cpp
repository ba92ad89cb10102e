#include "base/http_get.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace tracesmith {
namespace {

constexpr size_t kMostRequest = 16384;
constexpr int kPatienceMs = 2000;

/// Waits until the connection can be read or written, at most until the deadline.
bool ready(int fd, short events, std::chrono::steady_clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  pollfd p{fd, events, 0};
  return left > 0 && ::poll(&p, 1, static_cast<int>(left)) == 1;
}

const char* reason(int code) {
  return code == 200 ? "OK" : code == 404 ? "Not Found" : code == 405 ? "Method Not Allowed" : "Bad Request";
}

}  // namespace

HttpGetServer::~HttpGetServer() {
  for (int fd : {fd_, wake_[0], wake_[1]})
    if (fd >= 0) ::close(fd);
}

Status HttpGetServer::listen(const std::string& address, int port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(static_cast<uint16_t>(port));
  const std::string where = address + ":" + std::to_string(port);
  if (::inet_pton(AF_INET, address.c_str(), &in.sin_addr) != 1)
    return Status::invalid("'" + address + "' is not an IPv4 address");
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  if (fd_ >= 0) ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (fd_ < 0 || ::bind(fd_, reinterpret_cast<sockaddr*>(&in), sizeof in) != 0 || ::listen(fd_, 32) != 0)
    return Status::io("cannot listen on " + where + ": " + std::strerror(errno));
  socklen_t size = sizeof in;
  if (::getsockname(fd_, reinterpret_cast<sockaddr*>(&in), &size) == 0) port_ = ntohs(in.sin_port);
  if (::pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) return Status::io(std::string("no pipe: ") + std::strerror(errno));
  return {};
}

void HttpGetServer::stop() {
  const char byte = 0;
  if (wake_[1] >= 0) (void)!::write(wake_[1], &byte, 1);
}

Status HttpGetServer::serve() {
  for (;;) {
    pollfd fds[2] = {{fd_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) return Status::io(std::string("poll: ") + std::strerror(errno));
    if (fds[1].revents) return {};
    if (!(fds[0].revents & POLLIN)) continue;
    const int connection = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) continue;
    answer(connection);
    ::close(connection);
  }
}

void HttpGetServer::answer(int connection) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  std::string request;
  while (request.find("\r\n\r\n") == std::string::npos) {
    char buffer[4096];
    if (request.size() > kMostRequest || !ready(connection, POLLIN, deadline)) return;
    const ssize_t n = ::recv(connection, buffer, sizeof buffer, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return;
    if (n > 0) request.append(buffer, static_cast<size_t>(n));
  }
  HttpAnswer a;
  const size_t path = request.find(' '), end = request.find_first_of(" ?\r", path + 1);
  const bool head = request.starts_with("HEAD ");
  if (path == std::string::npos || end == std::string::npos)
    a.code = 400;
  else if (!head && !request.starts_with("GET "))
    a.code = 405;
  else
    a = handler_(request.substr(path + 1, end - path - 1));
  std::string out = "HTTP/1.1 " + std::to_string(a.code) + " " + reason(a.code) + "\r\nContent-Type: " + a.type +
                    "\r\nContent-Length: " + std::to_string(a.body.size()) + "\r\nConnection: close\r\n\r\n";
  if (!head) out += a.body;
  for (size_t sent = 0; sent < out.size();) {
    if (!ready(connection, POLLOUT, deadline)) return;
    const ssize_t n = ::send(connection, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return;
    if (n > 0) sent += static_cast<size_t>(n);
  }
  ::shutdown(connection, SHUT_WR);
}

}  // namespace tracesmith
