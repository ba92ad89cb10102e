// A relay for datagrams that delays them as a bad network would, each way by its own rule. (The kernel has netem where
// it is allowed to; this works everywhere.)
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>

namespace tracesmith::test {

struct LinkRule {
  double delay_us = 0, jitter_us = 0;  ///< delay + uniform part of jitter
  double stall_share = 0;              ///< of packets that wait 20 ms more
};

class DatagramRelay {
 public:
  DatagramRelay(uint16_t to, LinkRule there, LinkRule back) : there_(there), back_(back) {
    front_ = open(0);
    back_socket_ = open(0);
    server_ = loopback(to);
    sockaddr_in own{};
    socklen_t size = sizeof own;
    ::getsockname(front_, reinterpret_cast<sockaddr*>(&own), &size);
    port_ = ntohs(own.sin_port);
    thread_ = std::thread([this] { loop(); });
  }
  ~DatagramRelay() {
    stop_ = true;
    thread_.join();
    ::close(front_);
    ::close(back_socket_);
  }
  uint16_t port() const { return port_; }
  std::atomic<bool> cut{false};  ///< drops everything

 private:
  struct Packet {
    bool back;
    std::string bytes;
  };
  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
  }
  static int open(uint16_t port) {
    int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
    sockaddr_in a = loopback(port);
    ::bind(fd, reinterpret_cast<sockaddr*>(&a), sizeof a);
    return fd;
  }
  static int64_t now() {
    timespec t;
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
  }
  int64_t delay(const LinkRule& rule) {
    std::uniform_real_distribution<double> part(0, 1);
    double us = rule.delay_us + rule.jitter_us * part(random_);
    if (part(random_) < rule.stall_share) us += 20000;
    return static_cast<int64_t>(us * 1000);
  }
  void take(int fd, bool back) {
    char bytes[2048];
    sockaddr_in from{};
    socklen_t size = sizeof from;
    ssize_t n;
    while ((n = ::recvfrom(fd, bytes, sizeof bytes, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&from), &size)) > 0) {
      if (!back) client_ = from;
      if (!cut) waiting_.emplace(now() + delay(back ? back_ : there_), Packet{back, {bytes, static_cast<size_t>(n)}});
    }
  }
  void loop() {
    while (!stop_) {
      timespec wait{0, 5'000'000};
      if (!waiting_.empty()) wait.tv_nsec = std::clamp<int64_t>(waiting_.begin()->first - now(), 0, 5'000'000);
      pollfd fds[] = {{front_, POLLIN, 0}, {back_socket_, POLLIN, 0}};
      ::ppoll(fds, 2, &wait, nullptr);
      take(front_, false);
      take(back_socket_, true);
      while (!waiting_.empty() && waiting_.begin()->first <= now()) {
        const Packet p = waiting_.begin()->second;
        waiting_.erase(waiting_.begin());
        const sockaddr_in& to = p.back ? client_ : server_;
        ::sendto(p.back ? front_ : back_socket_, p.bytes.data(), p.bytes.size(), 0,
                 reinterpret_cast<const sockaddr*>(&to), sizeof to);
      }
    }
  }

  LinkRule there_, back_;
  int front_, back_socket_;
  uint16_t port_;
  sockaddr_in server_{}, client_{};
  std::multimap<int64_t, Packet> waiting_;
  std::mt19937_64 random_{42};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace tracesmith::test
