// Other clocks this machine can be compared with: an NTP server, chrony or the kernel, a PTP hardware clock.
#pragma once

#include <optional>
#include <string>

#include "sync/clock_fit.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::sync {

/// One measured relation: reference − raw clock.
struct Comparison {
  int64_t raw_ns = 0;               ///< when, raw clock
  int64_t offset_ns = 0;            ///< reference − raw
  std::optional<int64_t> bound_ns;  ///< the error is at most this; absent: not known
  int64_t round_trip_ns = 0;
};

/// A few questions to an NTP server (RFC 4330), the fastest answer counts. `server` is HOST or HOST:PORT.
/// The bound includes what the server says of its own error (root delay and dispersion).
Result<Comparison> askNtp(const std::string& server, int questions = 4, int timeout_ms = 1000);

/// The system clock, with the error the kernel states (adjtimex), which chrony and ntpd keep up to date.
/// Without a bound: nobody keeps the clock right.
Comparison askSystem();

/// The system clock, with the error chronyd computes for it, asked over loopback. Fails if chronyd does not run here,
/// or says that the clock is not synchronised.
Result<Comparison> askChrony(uint16_t port = 323, int timeout_ms = 1000);

/// The hardware clock of a network interface ("eth0") or a device ("/dev/ptp0").
Result<Comparison> askPtp(const std::string& interface_or_device);

/// Which of them to ask.
struct Source {
  enum class Kind { exchange, ntp, ptp };  ///< exchange: our own, with the master
  Kind kind = Kind::exchange;
  std::string name = {};  ///< of ntp: HOST[:PORT], or "chrony" for this machine's chronyd; of ptp: interface or device
};
/// "exchange", "ntp", "ptp"
const char* sourceName(Source::Kind kind);
/// Asks the NTP server or the PTP clock.
Result<Comparison> ask(const Source& source);

}  // namespace tracesmith::sync
