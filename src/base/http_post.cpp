#include "base/http_post.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace tracesmith {
namespace {

constexpr auto kPatience = std::chrono::seconds(5);
constexpr size_t kStatusLine = 12;  // "HTTP/1.1 200"
using Deadline = std::chrono::steady_clock::time_point;

bool ready(int fd, short events, Deadline deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  pollfd p{fd, events, 0};
  return left > 0 && ::poll(&p, 1, static_cast<int>(left)) == 1;
}

/// A connected socket, or −1.
int dial(const HttpUrl& url, Deadline deadline) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found) != 0) return -1;
  int connected = -1;
  for (addrinfo* a = found; a && connected < 0; a = a->ai_next) {
    const int fd = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0) continue;
    int error = 0;
    socklen_t size = sizeof error;
    if (::connect(fd, a->ai_addr, a->ai_addrlen) == 0 ||
        (errno == EINPROGRESS && ready(fd, POLLOUT, deadline) &&
         ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0))
      connected = fd;
    else
      ::close(fd);
  }
  ::freeaddrinfo(found);
  return connected;
}

/// The answer's code; 0: none came.
int exchange(int fd, const std::string& request, Deadline deadline) {
  for (size_t sent = 0; sent < request.size();) {
    if (!ready(fd, POLLOUT, deadline)) return 0;
    const ssize_t n = ::send(fd, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return 0;
    if (n > 0) sent += static_cast<size_t>(n);
  }
  std::string answer;
  while (answer.size() < kStatusLine) {
    char buffer[256];
    if (!ready(fd, POLLIN, deadline)) return 0;
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return 0;
    if (n > 0) answer.append(buffer, static_cast<size_t>(n));
  }
  if (!answer.starts_with("HTTP/1.")) return 0;
  int code = 0;
  for (size_t i = 9; i < kStatusLine; ++i)
    code = answer[i] >= '0' && answer[i] <= '9' ? code * 10 + answer[i] - '0' : 0;
  return code;
}

}  // namespace

Result<HttpUrl> parseHttpUrl(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  const Status bad = Status::invalid("'" + url + "' is not an address of the form http://HOST[:PORT][/PATH]");
  if (url.starts_with("https://"))
    return Status::invalid("webhooks use plain http: for https, call curl with --on-alert");
  if (!url.starts_with(kScheme)) return bad;
  for (char c : url)
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) return bad;
  HttpUrl parsed;
  const size_t slash = url.find('/', kScheme.size());
  std::string host = url.substr(kScheme.size(), slash == std::string::npos ? slash : slash - kScheme.size());
  if (slash != std::string::npos) parsed.path = url.substr(slash);
  if (host.starts_with('[')) {  // an IPv6 address
    const size_t end = host.find(']');
    if (end == std::string::npos) return bad;
    parsed.host = host.substr(1, end - 1);
    host = host.substr(end + 1);
    if (!host.empty() && host[0] != ':') return bad;
    if (host.size() > 1) parsed.port = host.substr(1);
  } else {
    const size_t colon = host.rfind(':');
    parsed.host = host.substr(0, colon);
    if (colon != std::string::npos) parsed.port = host.substr(colon + 1);
  }
  if (parsed.host.empty() || parsed.port.empty() || parsed.port.find_first_not_of("0123456789") != std::string::npos)
    return bad;
  return parsed;
}

Status httpPost(const HttpUrl& url, const std::string& json) {
  const Deadline deadline = std::chrono::steady_clock::now() + kPatience;
  const std::string where = "http://" + url.host + ":" + url.port + url.path;
  const int fd = dial(url, deadline);
  if (fd < 0) return Status::io("cannot reach " + where);
  const std::string request =
      "POST " + url.path + " HTTP/1.1\r\nHost: " + url.host +
      "\r\nUser-Agent: tracesmith\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(json.size()) +
      "\r\nConnection: close\r\n\r\n" + json;
  const int code = exchange(fd, request, deadline);
  ::close(fd);
  if (code == 0) return Status::io(where + " did not respond");
  if (code < 200 || code > 299) return Status::io(where + " responded with " + std::to_string(code));
  return {};
}

}  // namespace tracesmith
