#include "process/ras.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.hpp"
#include "hardware/sysfs.hpp"
#include "process/vitals.hpp"

namespace tracesmith::process {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint16_t kNcclsPort = 28028;
constexpr size_t kMostBytes = 256u << 20;  // 400 bytes for each rank of a communicator
constexpr int kConnectMs = 1000;
constexpr auto kLater = std::chrono::seconds(2);

struct Socket {
  int fd = -1;
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
};

/// Whether something can be done before the time is over.
bool wait(int fd, short event, Clock::time_point until, const std::function<bool()>& stop) {
  constexpr int kLookMs = 100;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0 || (stop && stop())) return false;
    pollfd p{fd, event, 0};
    const int n = ::poll(&p, 1, static_cast<int>(std::min<int64_t>(left, kLookMs)));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

Status failed(const std::string& what) { return Status::io("cannot ask NCCL's RAS: " + what); }

Status connectTo(Socket& s, const std::string& host, uint16_t port, const std::function<bool()>& stop) {
  sockaddr_storage address{};
  socklen_t size = sizeof(sockaddr_in);
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
  if (::inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
  } else if (::inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    size = sizeof(sockaddr_in6);
  } else {
    return failed("'" + host + "' is no address");
  }
  s.fd = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s.fd < 0) return failed(std::strerror(errno));
  if (::connect(s.fd, reinterpret_cast<sockaddr*>(&address), size) == 0) return {};
  if (errno != EINPROGRESS) return failed(std::strerror(errno));
  if (!wait(s.fd, POLLOUT, Clock::now() + std::chrono::milliseconds(kConnectMs), stop))
    return failed("it does not accept");
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(s.fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 ? Status() : failed(std::strerror(error));
}

/// Value of a variable of a process; empty: it has none, or may not be read.
std::string variableOf(const std::string& root, int64_t pid, std::string_view name) {
  const std::string text = hardware::readText(root + "/proc/" + std::to_string(pid) + "/environ").value_or("");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return std::string(entry.substr(name.size() + 1));
  }
  return {};
}

}  // namespace

Result<std::string> askRas(const std::string& host, uint16_t port, std::chrono::seconds patience,
                           const std::function<bool()>& stop) {
  const Clock::time_point until = Clock::now() + patience + kLater;
  Socket s;
  TS_TRY(connectTo(s, host, port, stop));
  const std::string request =
      "CLIENT PROTOCOL 2\nTIMEOUT " + std::to_string(patience.count()) + "\nSET FORMAT json\nVERBOSE STATUS\n";
  if (::send(s.fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    return failed("it takes no request");
  std::string answer;
  char buffer[65536];
  while (answer.size() < kMostBytes) {
    if (!wait(s.fd, POLLIN, until, stop)) return Status::timeout("NCCL's RAS does not answer");
    const ssize_t n = ::recv(s.fd, buffer, sizeof buffer, 0);
    if (n == 0) return answer;
    if (n > 0)
      answer.append(buffer, static_cast<size_t>(n));
    else if (errno != EAGAIN && errno != EINTR)
      return failed(std::strerror(errno));
  }
  return failed("its answer is too large");
}

std::set<uint16_t> rasPorts(const std::string& root) {
  std::set<uint16_t> ports = {kNcclsPort};
  for (const int64_t pid : processIds(root)) {
    const std::string address = variableOf(root, pid, "NCCL_RAS_ADDR");
    const size_t colon = address.rfind(':');
    int64_t port = 0;
    if (colon != std::string::npos && parseInt(std::string_view(address).substr(colon + 1), port) && port > 0 &&
        port < 65536 && ports.size() < 256)
      ports.insert(static_cast<uint16_t>(port));
  }
  return ports;
}

std::optional<int64_t> hostPid(const std::string& root, int64_t pid, uint32_t uid) {
  /// Whether a process calls itself `pid` and has the user; `alone`: it is in no namespace below ours.
  auto isIt = [&](int64_t candidate, bool& alone) {
    const std::string text = hardware::readText(root + "/proc/" + std::to_string(candidate) + "/status").value_or("");
    bool user = false, named = candidate == pid;
    alone = true;
    for (std::string_view rest = text; !rest.empty();) {
      std::string_view line = hardware::nextLine(rest);
      const std::string_view key = hardware::nextWord(line);
      if (key == "Uid:") user = hardware::firstNumber(line) == static_cast<int64_t>(uid);
      if (key != "NSpid:") continue;
      std::string_view last;
      size_t levels = 0;
      for (std::string_view word = hardware::nextWord(line); !word.empty(); word = hardware::nextWord(line), ++levels)
        last = word;
      alone = levels < 2;
      named = hardware::firstNumber(last) == pid;
    }
    return user && named;
  };
  bool alone = false;
  if (isIt(pid, alone) && alone) return pid;
  std::optional<int64_t> found;
  for (const int64_t candidate : processIds(root)) {
    if (!isIt(candidate, alone)) continue;
    if (found) return {};
    found = candidate;
  }
  return found;
}

}  // namespace tracesmith::process
