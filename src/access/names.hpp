// Names and addresses that come from users and from other machines: they never become paths unchecked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tracesmith/common/status.hpp"

namespace tracesmith::access {

/// Letters, digits, '.', '_', '-'; at most 64; begins with a letter or digit. `what` is for the message.
Status checkName(std::string_view what, std::string_view name);

struct Address {
  std::string host;
  uint16_t port = 0;
  std::string text() const;  ///< host:port, [host]:port for IPv6
};
/// "node1:50051", "node1" (with the default port), "[::1]:50051".
Result<Address> parseAddress(std::string_view text, uint16_t default_port);
/// localhost, or an address in 127.0.0.0/8 or ::1; a name that only begins like one is not.
bool isLoopback(std::string_view host);

/// `digits` random hexadecimal digits.
std::string randomHex(size_t digits);
/// This kernel's boot id.
std::string kernelBootId();
/// The id of this installation of the operating system; empty if it has none.
std::string machineId();

}  // namespace tracesmith::access
