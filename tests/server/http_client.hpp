// A plain HTTP client for tests: one request a connection, every byte under control.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

namespace tracesmith::server {

struct Reply {
  int status = 0;  ///< 0: the connection ended without an answer
  std::string head, body;
  bool header(const std::string& line) const { return head.find("\r\n" + line + "\r\n") != std::string::npos; }
  bool has(const std::string& part) const { return body.find(part) != std::string::npos; }
};

/// A connection to a server on this machine. The server has a class Connection, which this program links too.
class RawConnection {
 public:
  explicit RawConnection(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    open_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawConnection() { ::close(fd_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool open() const { return open_; }
  bool send(const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return false;
      at += static_cast<size_t>(n);
    }
    return true;
  }
  /// Reads until `text` has come, or the other side closed, or half a minute has passed.
  std::string readUntil(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (text.empty() || got_.find(text) == std::string::npos) {
      pollfd p{fd_, POLLIN, 0};
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0 || ::poll(&p, 1, static_cast<int>(left.count())) <= 0) break;
      char buffer[65536];
      const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) {
        closed_ = true;
        break;
      }
      got_.append(buffer, static_cast<size_t>(n));
    }
    return got_;
  }
  std::string readAll() { return readUntil(""); }
  bool closed() const { return closed_; }

 private:
  int fd_;
  bool open_ = false, closed_ = false;
  std::string got_;
};

inline std::string unchunked(const std::string& body) {
  std::string out;
  for (size_t at = 0; at < body.size();) {
    const size_t size = std::strtoul(body.c_str() + at, nullptr, 16), line = body.find("\r\n", at);
    if (size == 0 || line == std::string::npos) break;
    out += body.substr(line + 2, size);
    at = line + 2 + size + 2;
  }
  return out;
}

inline Reply parseReply(const std::string& text) {
  Reply r;
  const size_t end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 ") || end == std::string::npos) return r;
  r.status = std::atoi(text.c_str() + 9);
  r.head = text.substr(0, end + 2);
  r.body = text.substr(end + 4);
  if (r.header("Transfer-Encoding: chunked")) r.body = unchunked(r.body);
  return r;
}

/// `headers`: lines that end in \r\n.
inline Reply ask(uint16_t port, const std::string& method, const std::string& path, const std::string& body = "",
                 const std::string& headers = "") {
  RawConnection c(port);
  std::string text = method + " " + path + " HTTP/1.1\r\nConnection: close\r\n";
  if (headers.find("Host:") == std::string::npos) text += "Host: localhost\r\n";
  if (method == "POST")
    text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  if (!c.open() || !c.send(text + headers + "\r\n" + body)) return {};
  return parseReply(c.readAll());
}
inline Reply get(uint16_t port, const std::string& path, const std::string& headers = "") {
  return ask(port, "GET", path, "", headers);
}

}  // namespace tracesmith::server
