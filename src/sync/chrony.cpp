// What chronyd knows of the system clock: its monitoring protocol (version 6), one question over loopback. Numbers are
// big-endian; reals have 32 bits, of which 7 are an exponent and 25 a coefficient, both signed.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <random>

#include "sync/exchange.hpp"
#include "sync/sources.hpp"

namespace tracesmith::sync {
namespace {

constexpr uint8_t kVersion = 6, kQuestion = 1, kAnswer = 2;
constexpr uint16_t kTracking = 33, kTrackingAnswer = 5;
constexpr uint16_t kNotSynchronised = 3;  // of the leap status

struct Header {
  uint8_t version, kind, reserved[2];
  uint16_t command;
};
struct Question {
  Header header;
  uint16_t attempt;
  uint32_t sequence, reserved[2];
  char padding[84];  // a question is as long as its answer: nobody is flooded by answers to faked addresses
};
struct Answer {
  Header header;
  uint16_t what, status, reserved[3];
  uint32_t sequence, reserved2[2];
  uint32_t reference_id;
  char address[20];
  uint16_t stratum, leap;
  uint32_t reference_time[3];
  uint32_t correction, last_offset, rms_offset, frequency, residual_frequency, skew;
  uint32_t root_delay, root_dispersion, update_interval;
};
static_assert(sizeof(Question) == 104 && sizeof(Answer) == 104);

double realOf(uint32_t big_endian) {
  const uint32_t bits = ntohl(big_endian);
  const int exponent = static_cast<int32_t>(bits) >> 25;  // of two's complement, as are both parts
  const int coefficient = static_cast<int32_t>(bits << 7) >> 7;
  return std::ldexp(coefficient, exponent - 25);
}

}  // namespace

Result<Comparison> askChrony(uint16_t port, int timeout_ms) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string who = "chronyd on port " + std::to_string(port);
  Question question{};
  question.header = {kVersion, kQuestion, {}, htons(kTracking)};
  question.sequence = std::random_device()();
  Answer answer{};
  bool got = false;
  if (fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0 &&
      ::send(fd, &question, sizeof question, 0) == sizeof question) {
    pollfd p{fd, POLLIN, 0};
    while (!got && ::poll(&p, 1, timeout_ms) > 0) {
      const ssize_t n = ::recv(fd, &answer, sizeof answer, 0);
      if (n < 0) break;  // nobody listens there
      got = n >= static_cast<ssize_t>(offsetof(Answer, reference_id)) && answer.header.kind == kAnswer &&
            answer.sequence == question.sequence;
      if (got && n < static_cast<ssize_t>(sizeof answer)) answer.what = 0;
    }
  }
  if (fd >= 0) ::close(fd);
  if (!got) return Status::notFound(who + " does not answer: is it running, with its cmdport open?");
  if (answer.header.version != kVersion || ntohs(answer.what) != kTrackingAnswer || answer.status != 0)
    return Status::unsupported(who + " did not report its state (status " + std::to_string(ntohs(answer.status)) + ")");
  if (ntohs(answer.leap) == kNotSynchronised) return Status::io(who + " reports that the clock is not synchronised");
  Comparison c = askSystem();
  // The clock is still being moved by `correction`; beyond that it is off by what chrony computes of its sources.
  const double seconds =
      std::abs(realOf(answer.correction)) + realOf(answer.root_dispersion) + realOf(answer.root_delay) / 2;
  c.bound_ns = static_cast<int64_t>(std::ceil(std::max(0.0, seconds) * 1e9)) + 1;
  c.round_trip_ns = static_cast<int64_t>(realOf(answer.root_delay) * 1e9);
  return c;
}

}  // namespace tracesmith::sync
