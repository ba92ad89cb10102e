// A relay for TCP that behaves as a bad network: slow, silent, one way only, or breaking off.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace tracesmith::test {

class TcpRelay {
 public:
  /// Listens on 127.0.0.2, where nothing else of ours does: datagrams to that address reach nobody.
  explicit TcpRelay(uint16_t to) : to_(to) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own = at("127.0.0.2", 0);
    socklen_t size = sizeof own;
    ::bind(listener_, reinterpret_cast<sockaddr*>(&own), size);
    ::listen(listener_, 64);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&own), &size);
    port_ = ntohs(own.sin_port);
    thread_ = std::thread([this] { loop(); });
  }
  ~TcpRelay() {
    stop_ = true;
    thread_.join();
    for (const Pair& p : pairs_) ::close(p.client), ::close(p.server);
    ::close(listener_);
  }
  std::string address() const { return "127.0.0.2:" + std::to_string(port_); }

  std::atomic<bool> silent{false};     ///< nothing goes through, connections stay: a cable was pulled
  std::atomic<bool> one_way{false};    ///< what the server answers does not come back
  std::atomic<bool> refusing{false};   ///< all connections break, new ones too
  std::atomic<int> bytes_per_ms{0};    ///< to the server; 0: no limit
  std::atomic<int> break_every_ms{0};  ///< connections break about this often; 0: never
  std::atomic<uint64_t> broken{0};     ///< connections

 private:
  struct Pair {
    int client, server;
    bool ended = false;
  };
  static sockaddr_in at(const char* host, uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    ::inet_pton(AF_INET, host, &a.sin_addr);
    return a;
  }
  static void reset(int fd) {
    const linger now{1, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  void accept() {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in to = at("127.0.0.1", to_);
    if (refusing || ::connect(server, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
      reset(client);
      ::close(client);
      ::close(server);
      return;
    }
    pairs_.push_back({client, server});
  }
  /// False: the connection has ended.
  bool carry(int from, int to, size_t most) {
    char bytes[16384];
    const ssize_t n = ::recv(from, bytes, std::min(sizeof bytes, most), MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    for (ssize_t sent = 0; sent < n && !stop_;) {
      const ssize_t k = ::send(to, bytes + sent, static_cast<size_t>(n - sent), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (k > 0) {
        sent += k;
        continue;
      }
      if (errno != EAGAIN) return false;
      pollfd p{to, POLLOUT, 0};
      ::poll(&p, 1, 10);
    }
    return true;
  }
  void loop() {
    std::mt19937 random(11);
    while (!stop_) {
      std::vector<pollfd> fds = {{listener_, POLLIN, 0}};
      const bool blocked = silent;
      if (!blocked)
        for (const Pair& p : pairs_) {
          fds.push_back({p.client, POLLIN, 0});
          fds.push_back({p.server, static_cast<short>(one_way ? 0 : POLLIN), 0});
        }
      ::poll(fds.data(), fds.size(), 5);
      const size_t before = pairs_.size();
      if (fds[0].revents & POLLIN) accept();
      size_t i = 1, n = 0;
      for (Pair& p : pairs_) {
        if (n++ >= before || blocked) break;
        const short up = fds[i].revents, down = fds[i + 1].revents;
        i += 2;
        if (up & (POLLIN | POLLHUP | POLLERR)) {
          const int limit = bytes_per_ms;
          const uint64_t most = limit > 0 ? static_cast<uint64_t>(limit) : 16384;
          p.ended |= !carry(p.client, p.server, most);
          if (limit > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        if (down & POLLIN) p.ended |= !carry(p.server, p.client, 16384);
        if (!one_way && (down & (POLLHUP | POLLERR)) && !(down & POLLIN)) p.ended = true;
      }
      const int often = break_every_ms;
      const bool breaks = refusing || (often > 0 && random() % static_cast<unsigned>(often) == 0 && !pairs_.empty());
      for (Pair& p : pairs_) {
        if (!p.ended && !breaks) continue;
        if (breaks) reset(p.client), reset(p.server), ++broken;
        ::close(p.client);
        ::close(p.server);
        p.client = -1;
      }
      pairs_.remove_if([](const Pair& p) { return p.client < 0; });
    }
  }

  const uint16_t to_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::list<Pair> pairs_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace tracesmith::test
