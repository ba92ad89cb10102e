#include "sync/exchange.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "base/clock.hpp"
#include "base/interface.hpp"

namespace tracesmith::sync {
namespace {

constexpr uint64_t kRequest = 0x3151545353435354ull, kAnswer = 0x3141545353435354ull;  // "TSCSSTQ1", "TSCSSTA1"

constexpr int kMostAtOnce = 64;  // requests between two looks whether to stop

struct Packet {
  uint64_t kind;
  uint64_t key;
  uint64_t number;  // of the request; random at its start, so that answers cannot be guessed
  int64_t t1, t2, t3;
};
static_assert(sizeof(Packet) == 48);

/// Receives a packet; how long ago the kernel had it, ns (0 if it does not say).
bool receive(int fd, Packet& packet, sockaddr_storage& from, socklen_t& from_size, const Clock& clock, int64_t& when) {
  char control[256];
  iovec io{&packet, sizeof packet};
  msghdr message{};
  message.msg_name = &from;
  message.msg_namelen = sizeof from;
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(fd, &message, MSG_DONTWAIT);
  when = clock();
  if (n != sizeof packet) return false;
  from_size = message.msg_namelen;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS) continue;
    timespec t;
    std::memcpy(&t, CMSG_DATA(c), sizeof t);
    // The system clock may have been set in between: then the answer makes no sense and is not used.
    const int64_t ago = unixClock() - (static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec);
    if (ago > 0 && ago < 1'000'000'000) when -= ago;
  }
  return true;
}

void wantKernelTimes(int fd) {
  int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
}

Result<addrinfo*> resolve(const std::string& host, uint16_t port, bool passive) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = passive ? AI_PASSIVE : 0;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error) return Status::notFound("cannot find " + host + ": " + ::gai_strerror(error));
  return found;
}

}  // namespace

Result<std::unique_ptr<ExchangeServer>> ExchangeServer::start(const std::string& host, uint16_t port, uint64_t key,
                                                              Clock reference) {
  Result<addrinfo*> address = resolve(host, port, true);
  if (!address) return address.status();
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(*address, ::freeaddrinfo);
  std::unique_ptr<ExchangeServer> server(new ExchangeServer());
  server->key_ = key;
  server->reference_ = std::move(reference);
  server->socket_ = ::socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (server->socket_ < 0 || ::bind(server->socket_, list->ai_addr, list->ai_addrlen) != 0)
    return Status::io("cannot listen on UDP " + host + ":" + std::to_string(port) + ": " + std::strerror(errno));
  wantKernelTimes(server->socket_);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ::getsockname(server->socket_, reinterpret_cast<sockaddr*>(&own), &size);
  server->port_ = ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(own).sin6_port
                                                  : reinterpret_cast<sockaddr_in&>(own).sin_port);
  if (::pipe2(server->wake_, O_CLOEXEC) != 0) return Status::io("cannot make a pipe");
  server->thread_ = std::thread([s = server.get()] { s->loop(); });
  return server;
}

ExchangeServer::~ExchangeServer() {
  if (thread_.joinable()) {
    ::close(wake_[1]);
    thread_.join();
    ::close(wake_[0]);
  }
  if (socket_ >= 0) ::close(socket_);
}

void ExchangeServer::loop() {
  for (;;) {
    pollfd fds[] = {{socket_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
    ::poll(fds, 2, -1);
    if (fds[1].revents) return;
    // Those that wait already are answered without asking the kernel again whether there are any.
    for (int i = 0; i < kMostAtOnce && answerOne(); ++i) {
    }
  }
}

bool ExchangeServer::answerOne() {
  Packet packet;
  sockaddr_storage from{};
  socklen_t from_size = 0;
  int64_t when;
  if (!receive(socket_, packet, from, from_size, reference_, when)) return false;
  if (packet.kind != kRequest || packet.key != key_) return true;
  packet.kind = kAnswer;
  packet.t2 = when;
  ++answered_;  // before it is sent: who has the answer may ask how many there were
  packet.t3 = reference_();
  ::sendto(socket_, &packet, sizeof packet, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&from), from_size);
  return true;
}

Result<std::unique_ptr<ExchangeClient>> ExchangeClient::connect(const std::string& host, uint16_t port, uint64_t key,
                                                                Clock local, const std::string& interface) {
  Result<addrinfo*> address = resolve(host, port, false);
  if (!address) return address.status();
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(*address, ::freeaddrinfo);
  std::unique_ptr<ExchangeClient> client(new ExchangeClient());
  client->key_ = key;
  client->local_ = std::move(local);
  client->socket_ = ::socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (client->socket_ >= 0) TS_TRY(bindToInterface(client->socket_, list->ai_family, interface));
  if (client->socket_ < 0 || ::connect(client->socket_, list->ai_addr, list->ai_addrlen) != 0)
    return Status::io("cannot reach UDP " + host + ":" + std::to_string(port) + ": " + std::strerror(errno));
  wantKernelTimes(client->socket_);
  std::random_device random;
  client->next_ = static_cast<uint64_t>(random()) << 32 | random();
  return client;
}

ExchangeClient::~ExchangeClient() {
  if (socket_ >= 0) ::close(socket_);
}

std::vector<Exchange> ExchangeClient::burst(int count, int timeout_ms) {
  std::vector<Exchange> done;
  for (int i = 0; i < count; ++i) {
    Packet packet{kRequest, key_, ++next_, 0, 0, 0};
    packet.t1 = local_();
    const int64_t deadline = readClock(CLOCK_MONOTONIC) + timeout_ms * 1'000'000ll;
    if (::send(socket_, &packet, sizeof packet, MSG_DONTWAIT) != sizeof packet) continue;
    for (;;) {
      const int64_t left_ms = (deadline - readClock(CLOCK_MONOTONIC) + 999'999) / 1'000'000;
      pollfd fd{socket_, POLLIN, 0};
      if (left_ms <= 0 || ::poll(&fd, 1, static_cast<int>(left_ms)) <= 0) break;
      Packet answer;
      sockaddr_storage from{};
      socklen_t from_size = 0;
      int64_t when;
      if (!receive(socket_, answer, from, from_size, local_, when)) {
        if (errno == ECONNREFUSED) return done;  // nobody listens there
        continue;
      }
      // An answer to an earlier request came too late: its t1 is no longer known to be ours.
      if (answer.kind != kAnswer || answer.key != key_ || answer.number != packet.number) continue;
      done.push_back({packet.t1, answer.t2, answer.t3, when});
      break;
    }
  }
  return done;
}

}  // namespace tracesmith::sync
