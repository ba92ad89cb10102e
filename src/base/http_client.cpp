#include "base/http_client.hpp"

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
constexpr size_t kStatusLine = 12;       // "HTTP/1.1 200"
constexpr size_t kMostBytes = 64 << 20;  // of an answer
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

bool sendAll(int fd, const std::string& request, Deadline deadline) {
  for (size_t sent = 0; sent < request.size();) {
    if (!ready(fd, POLLOUT, deadline)) return false;
    const ssize_t n = ::send(fd, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (n > 0) sent += static_cast<size_t>(n);
  }
  return true;
}

/// What comes until the connection ends, it is too much, or the time is over.
std::string receive(int fd, size_t most, Deadline deadline) {
  std::string answer;
  while (answer.size() < most) {
    char buffer[4096];
    if (!ready(fd, POLLIN, deadline)) break;
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) break;
    if (n > 0) answer.append(buffer, static_cast<size_t>(n));
  }
  return answer;
}

/// The code in an answer; 0: it is no answer.
int codeOf(const std::string& answer) {
  if (answer.size() < kStatusLine || !answer.starts_with("HTTP/1.")) return 0;
  int code = 0;
  for (size_t i = 9; i < kStatusLine; ++i)
    code = answer[i] >= '0' && answer[i] <= '9' ? code * 10 + answer[i] - '0' : 0;
  return code;
}

std::string placeOf(const HttpUrl& url) { return "http://" + url.host + ":" + url.port + url.path; }

/// Asks, and returns the first `most` bytes of the answer with its head.
Result<std::string> exchange(const HttpUrl& url, const std::string& method, const std::string& headers,
                             const std::string& json, size_t most) {
  const Deadline deadline = std::chrono::steady_clock::now() + kPatience;
  const int fd = dial(url, deadline);
  if (fd < 0) return Status::io("cannot reach " + placeOf(url));
  const std::string request = method + " " + url.path + " HTTP/1.1\r\nHost: " + url.host +
                              "\r\nUser-Agent: tracesmith\r\nContent-Type: application/json\r\n" + headers +
                              "Content-Length: " + std::to_string(json.size()) + "\r\nConnection: close\r\n\r\n" + json;
  std::string answer = sendAll(fd, request, deadline) ? receive(fd, most, deadline) : "";
  ::close(fd);
  if (codeOf(answer) == 0) return Status::io(placeOf(url) + " did not respond");
  return answer;
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
  const Result<std::string> answer = exchange(url, "POST", "", json, kStatusLine);
  if (!answer) return answer.status();
  const int code = codeOf(*answer);
  if (code < 200 || code > 299) return Status::io(placeOf(url) + " responded with " + std::to_string(code));
  return {};
}

Result<HttpReply> httpAsk(const HttpUrl& url, const std::string& method, const std::string& json,
                          const std::string& token) {
  const std::string headers = token.empty() ? "" : "Authorization: Bearer " + token + "\r\n";
  Result<std::string> answer = exchange(url, method, headers, json, kMostBytes);
  if (!answer) return answer.status();
  const size_t head = answer->find("\r\n\r\n");
  if (head == std::string::npos || answer->size() >= kMostBytes)
    return Status::io(placeOf(url) + " sent an answer that is cut off or too large");
  return HttpReply{codeOf(*answer), answer->substr(head + 4)};
}

}  // namespace tracesmith
