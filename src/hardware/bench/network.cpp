// Network: one TCP connection, throughput and round trips. The other end is a thread here, or `bench serve` elsewhere.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/statistics.hpp"
#include "hardware/bench/bench.hpp"

namespace tracesmith::hardware {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kPiece = 1 << 20;
constexpr char kSink = 'S', kEcho = 'E';  // first byte of a connection: what the other end shall do

double secondsSince(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& o) noexcept : fd_(o.fd_) { o.fd_ = -1; }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  bool send(const void* data, size_t size) const {
    for (size_t done = 0; done < size;) {
      const ssize_t n = ::send(fd_, static_cast<const char*>(data) + done, size - done, MSG_NOSIGNAL);
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }
  bool receive(void* data, size_t size) const {
    for (size_t done = 0; done < size;) {
      const ssize_t n = ::recv(fd_, static_cast<char*>(data) + done, size - done, 0);
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }

 private:
  int fd_;
};

void serveOne(const Socket& peer) {
  const int on = 1;
  ::setsockopt(peer.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const timeval patience{10, 0};
  ::setsockopt(peer.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char what = 0;
  if (!peer.receive(&what, 1)) return;
  std::vector<char> buffer(kPiece);
  if (what == kEcho) {
    char byte;
    while (peer.receive(&byte, 1) && peer.send(&byte, 1)) {
    }
  } else if (what == kSink) {
    uint64_t total = 0;
    for (ssize_t n; (n = ::recv(peer.fd(), buffer.data(), buffer.size(), 0)) > 0;) total += static_cast<uint64_t>(n);
    (void)peer.send(&total, sizeof total);  // so that the other end knows when all had arrived
  }
}

Result<Socket> connectTo(const std::string& host, const std::string& port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return Status::notFound("cannot find " + host);
  Status failed = Status::io("cannot connect to " + host + ":" + port);
  for (addrinfo* a = found; a; a = a->ai_next) {
    Socket s(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0));
    const timeval patience{10, 0};
    ::setsockopt(s.fd(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    ::setsockopt(s.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(s.fd(), a->ai_addr, a->ai_addrlen) != 0) {
      failed = Status::io("cannot connect to " + host + ":" + port + ": " + std::strerror(errno));
      continue;
    }
    const int on = 1;
    ::setsockopt(s.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::freeaddrinfo(found);
    return Result<Socket>(std::move(s));
  }
  ::freeaddrinfo(found);
  return failed;
}

Status measure(const BenchOptions& o, const std::string& host, const std::string& port, const std::string& part,
               Capability& out) {
  std::vector<double> rates, trips;
  const std::vector<char> piece(kPiece, 'x');
  for (int r = 0; r < o.repetitions; ++r) {
    o.progress("network " + part);
    Result<Socket> sink = connectTo(host, port);
    if (!sink) return sink.status();
    uint64_t sent = 0, arrived = 0;
    const auto begin = Clock::now();
    bool good = sink->send(&kSink, 1);
    while (good && secondsSince(begin) < o.seconds) {
      good = sink->send(piece.data(), piece.size());
      sent += piece.size();
    }
    ::shutdown(sink->fd(), SHUT_WR);
    if (!good || !sink->receive(&arrived, sizeof arrived) || arrived != sent)
      return Status::io("the connection to " + host + ":" + port + " broke");
    rates.push_back(static_cast<double>(sent) / secondsSince(begin) * 1e-9);

    Result<Socket> echo = connectTo(host, port);
    if (!echo) return echo.status();
    if (!echo->send(&kEcho, 1)) return Status::io("the connection to " + host + ":" + port + " broke");
    std::vector<double> each;
    const auto from = Clock::now();
    while (secondsSince(from) < o.seconds / 2) {
      const auto t = Clock::now();
      char byte = 1;
      if (!echo->send(&byte, 1) || !echo->receive(&byte, 1))
        return Status::io("the connection to " + host + ":" + port + " broke");
      each.push_back(secondsSince(t) * 1e6);
    }
    trips.push_back(median(std::move(each)));
  }
  out.set(figure("network_gbps", "GB/s", part, rates, "one TCP connection, one direction"));
  out.set(
      figure("network_round_trip_us", "us", part, trips, "one byte there and back over TCP, median per repetition"));
  return {};
}

}  // namespace

Status serveNetwork(const std::string& address, int port, const std::function<void(int)>& ready,
                    const std::function<bool()>& stop) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(static_cast<uint16_t>(port));
  if (::inet_pton(AF_INET, address.c_str(), &in.sin_addr) != 1)
    return Status::invalid("'" + address + "' is not an IPv4 address");
  Socket server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(server.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(server.fd(), reinterpret_cast<sockaddr*>(&in), sizeof in) != 0 || ::listen(server.fd(), 8) != 0)
    return Status::io("cannot listen on " + address + ":" + std::to_string(port) + ": " + std::strerror(errno));
  socklen_t size = sizeof in;
  ::getsockname(server.fd(), reinterpret_cast<sockaddr*>(&in), &size);
  ready(ntohs(in.sin_port));
  while (!stop()) {
    pollfd p{server.fd(), POLLIN, 0};
    if (::poll(&p, 1, 100) <= 0) continue;
    Socket peer(::accept4(server.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.fd() >= 0) serveOne(peer);
  }
  return {};
}

void benchNetwork(const BenchOptions& o, Capability& out) {
  std::atomic<int> port{0};
  std::atomic<bool> done{false};
  std::thread server([&] {
    if (!serveNetwork(
            "127.0.0.1", 0, [&](int p) { port = p; }, [&] { return done.load(); }))
      port = -1;
  });
  while (port == 0) std::this_thread::yield();
  Status loopback = port > 0 ? measure(o, "127.0.0.1", std::to_string(port), "loopback", out)
                             : Status::io("cannot listen on 127.0.0.1");
  done = true;
  server.join();
  if (!loopback) out.notes.push_back("loopback was not measured: " + loopback.message());
  if (o.peer.empty()) return;
  const size_t colon = o.peer.rfind(':');
  Status peer = colon == std::string::npos ? Status::invalid("--peer must be HOST:PORT")
                                           : measure(o, o.peer.substr(0, colon), o.peer.substr(colon + 1), o.peer, out);
  if (!peer) out.notes.push_back("the network to " + o.peer + " was not measured: " + peer.message());
}

}  // namespace tracesmith::hardware
