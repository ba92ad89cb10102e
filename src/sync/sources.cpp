#include "sync/sources.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/ptp_clock.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "sync/exchange.hpp"

namespace tracesmith::sync {
namespace {

constexpr int64_t kS = 1'000'000'000;
constexpr std::string_view kChrony = "chrony", kChronyPort = "chrony:";
constexpr uint32_t kNtpEpoch = 2'208'988'800u;  // 1970 by a clock that began in 1900

struct NtpPacket {
  uint8_t mode, stratum;
  int8_t poll, precision;
  uint32_t root_delay, root_dispersion, reference_id;
  uint32_t reference[2], origin[2], receive[2], transmit[2];
};
static_assert(sizeof(NtpPacket) == 48);

int64_t unixOf(const uint32_t (&stamp)[2]) {
  const auto seconds = static_cast<int64_t>(ntohl(stamp[0])) - kNtpEpoch;
  // Numbers below 2^31 are after February 2036, when the counter begins anew.
  const int64_t era = ntohl(stamp[0]) < 0x80000000u ? int64_t{1} << 32 : 0;
  return (seconds + era) * kS + static_cast<int64_t>((static_cast<uint64_t>(ntohl(stamp[1])) * kS) >> 32);
}

int64_t shortNs(uint32_t value) { return static_cast<int64_t>(static_cast<uint64_t>(ntohl(value)) * kS >> 16); }

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Result<Comparison> askOnce(int fd, const std::string& server, int timeout_ms) {
  NtpPacket ask{};
  ask.mode = 4 << 3 | 3;             // version 4, client
  const int64_t nonce = rawClock();  // comes back as `origin`: tells our answer from others
  std::memcpy(ask.transmit, &nonce, sizeof nonce);
  Exchange e;
  e.t1 = rawClock();
  if (::send(fd, &ask, sizeof ask, 0) != sizeof ask)
    return Status::io("cannot ask " + server + ": " + std::strerror(errno));
  const int64_t deadline = e.t1 + timeout_ms * 1'000'000ll;
  for (;;) {
    pollfd p{fd, POLLIN, 0};
    const int64_t left = (deadline - rawClock()) / 1'000'000;
    if (left <= 0 || ::poll(&p, 1, static_cast<int>(left)) <= 0) return Status::io(server + " does not answer");
    NtpPacket answer;
    const ssize_t n = ::recv(fd, &answer, sizeof answer, 0);
    e.t4 = rawClock();
    if (n < 0) return Status::io(server + " does not answer: " + std::strerror(errno));
    if (n < static_cast<ssize_t>(sizeof answer) || std::memcmp(answer.origin, &nonce, sizeof nonce) != 0) continue;
    if ((answer.mode & 7) != 4 || answer.stratum == 0 || answer.mode >> 6 == 3)
      return Status::io(server + " reports that its own clock is not synchronised");
    e.t2 = unixOf(answer.receive);
    e.t3 = unixOf(answer.transmit);
    const int64_t own = shortNs(answer.root_delay) / 2 + shortNs(answer.root_dispersion);
    return Comparison{e.t1 + (e.t4 - e.t1) / 2, e.offset(), e.delay() / 2 + own, e.delay()};
  }
}

}  // namespace

Result<Comparison> askNtp(const std::string& server, int questions, int timeout_ms) {
  std::string host = server, port = "123";
  if (const size_t colon = server.rfind(':'); colon != std::string::npos && server.find(':') == colon) {
    host = server.substr(0, colon);
    port = server.substr(colon + 1);
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found))
    return Status::notFound("cannot find " + host + ": " + ::gai_strerror(error));
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  Descriptor socket{::socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (socket.fd < 0 || ::connect(socket.fd, list->ai_addr, list->ai_addrlen) != 0)
    return Status::io("cannot reach " + server + ": " + std::strerror(errno));
  Result<Comparison> best = Status::io(server + " was not asked");
  for (int i = 0; i < questions; ++i) {
    Result<Comparison> one = askOnce(socket.fd, server, timeout_ms);
    if (!one && !best) best = one.status();
    if (one && (!best || one->bound_ns < best->bound_ns)) best = *one;
    if (!one && i == 0) break;  // a server that is not there is not asked again
  }
  return best;
}

Comparison askSystem() {
  Comparison c;
  const int64_t before = rawClock();
  const int64_t now = unixClock();
  const int64_t after = rawClock();
  c.raw_ns = before + (after - before) / 2;
  c.offset_ns = now - c.raw_ns;
  timex state{};
  const int kernel = ::adjtimex(&state);
  const bool kept = kernel != TIME_ERROR && !(state.status & STA_UNSYNC);
  if (kept) c.bound_ns = state.maxerror * 1000 + (after - before) / 2;
  return c;
}

Result<Comparison> askPtp(const std::string& name) {
  std::string device = name;
  if (!name.starts_with('/')) {
    Descriptor socket{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    ethtool_ts_info info{};
    info.cmd = ETHTOOL_GET_TS_INFO;
    ifreq request{};
    std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&info);
    if (::ioctl(socket.fd, SIOCETHTOOL, &request) != 0) return errnoStatus("ask the interface", name);
    if (info.phc_index < 0) return Status::unsupported("interface " + name + " has no hardware clock");
    device = "/dev/ptp" + std::to_string(info.phc_index);
  }
  Descriptor ptp{::open(device.c_str(), O_RDONLY | O_CLOEXEC)};
  if (ptp.fd < 0) return errnoStatus("open", device);
  // The kernel's clock id of an open descriptor.
  const auto id = static_cast<clockid_t>((~static_cast<unsigned>(ptp.fd) << 3) | 3);
  Comparison best;
  for (int i = 0; i < 16; ++i) {
    timespec t;
    const int64_t before = rawClock();
    if (::clock_gettime(id, &t) != 0) return errnoStatus("read", device);
    const int64_t after = rawClock();
    if (best.bound_ns && after - before >= 2 * *best.bound_ns) continue;
    best.raw_ns = before + (after - before) / 2;
    best.offset_ns = static_cast<int64_t>(t.tv_sec) * kS + t.tv_nsec - best.raw_ns;
    best.bound_ns = (after - before) / 2 + 1;
    best.round_trip_ns = after - before;
  }
  return best;
}

const char* sourceName(Source::Kind kind) {
  return kind == Source::Kind::ntp ? "ntp" : kind == Source::Kind::ptp ? "ptp" : "exchange";
}

Result<Comparison> ask(const Source& source) {
  switch (source.kind) {
    case Source::Kind::ptp:
      return askPtp(source.name);
    case Source::Kind::ntp: {
      // "chrony", "chrony:PORT": what the chronyd of this machine knows.
      if (source.name == kChrony) return askChrony();
      int64_t port = 0;
      if (source.name.starts_with(kChronyPort) && parseInt(source.name.substr(kChronyPort.size()), port) && port > 0 &&
          port < 65536)
        return askChrony(static_cast<uint16_t>(port));
      return askNtp(source.name);
    }
    case Source::Kind::exchange:
      break;
  }
  return Status::invalid("the master is asked by an exchange, not here");
}

}  // namespace tracesmith::sync
