#include "access/names.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "base/text.hpp"

namespace tracesmith::access {

Status checkName(std::string_view what, std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  const bool good =
      !name.empty() && name.size() <= 64 && letter(name[0]) &&
      std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || c == '.' || c == '_' || c == '-'; });
  if (good) return {};
  std::string shown;
  appendUtf8(shown, name.substr(0, 80));
  return Status::invalid(
      std::string(what) + " '" + shown +
      "' is not a name: use up to 64 letters, digits, '.', '_' and '-', starting with a letter or digit");
}

std::string Address::text() const {
  return (host.find(':') != std::string::npos ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Address> parseAddress(std::string_view text, uint16_t default_port) {
  const Status wrong = Status::invalid("'" + std::string(text) + "' is not an address: use HOST:PORT");
  Address address;
  address.port = default_port;
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return wrong;
    address.host = text.substr(1, end - 1);
    if (end + 1 < text.size() && text[end + 1] != ':') return wrong;
    port = end + 2 <= text.size() ? text.substr(end + 2) : std::string_view();
    if (end + 1 < text.size() && port.empty()) return wrong;
  } else {
    const size_t colon = text.find(':');
    address.host = text.substr(0, colon);
    if (colon != std::string_view::npos) {
      port = text.substr(colon + 1);
      if (port.empty()) return wrong;
    }
  }
  int64_t number = default_port;
  if (!port.empty() && (!parseInt(port, number) || number < 1 || number > 65535)) return wrong;
  address.port = static_cast<uint16_t>(number);
  const bool good = !address.host.empty() && std::all_of(address.host.begin(), address.host.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' || c == ':' || c == '%';
  });
  if (!good) return wrong;
  return address;
}

bool isLoopback(std::string_view text) {
  const std::string host(text);
  if (host.find('\0') != host.npos) return false;
  if (::strcasecmp(host.c_str(), "localhost") == 0) return true;
  in_addr v4;
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6;
  if (::inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

std::string randomHex(size_t digits) {
  std::random_device random;
  std::string out;
  while (out.size() < digits) out += "0123456789abcdef"[random() & 15];
  return out;
}

namespace {

std::string firstLine(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace

std::string kernelBootId() { return firstLine("/proc/sys/kernel/random/boot_id"); }

std::string machineId() { return firstLine("/etc/machine-id"); }

}  // namespace tracesmith::access
