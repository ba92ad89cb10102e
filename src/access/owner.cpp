#include "access/owner.hpp"

#include <arpa/inet.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace tracesmith::access {
namespace {

constexpr unsigned kEstablished = 1;

/// An IPv4 address in the form IPv6 has for it.
using Host = std::array<uint32_t, 4>;

std::optional<Host> hostOf(const std::string& text) {
  in6_addr v6;
  Host host{};
  if (::inet_pton(AF_INET6, text.c_str(), &v6) != 1 && ::inet_pton(AF_INET6, ("::ffff:" + text).c_str(), &v6) != 1)
    return {};
  std::memcpy(host.data(), &v6, sizeof host);
  return host;
}

/// "0100007F:8C72" of /proc/net/tcp and its longer form of tcp6: words of the address as they lie in memory.
bool parseEnd(const char* text, Host& host, unsigned& port) {
  if (std::strlen(text) > 16)
    return std::sscanf(text, "%8x%8x%8x%8x:%x", &host[0], &host[1], &host[2], &host[3], &port) == 5;
  host = {0, 0, htonl(0xffff), 0};
  return std::sscanf(text, "%8x:%x", &host[3], &port) == 2;
}

}  // namespace

std::optional<uid_t> ownerOf(const Peer& peer, uint16_t our_port) {
  const std::optional<Host> wanted = hostOf(peer.host);
  if (!wanted || peer.port == 0) return {};
  std::optional<uid_t> owner;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      char local[64], remote[64];
      unsigned state, uid, local_port, remote_port;
      unsigned long inode;
      Host from, to;
      if (std::sscanf(line.c_str(), " %*u: %63s %63s %x %*s %*s %*s %u %*u %lu", local, remote, &state, &uid, &inode) !=
              5 ||
          !parseEnd(local, from, local_port) || !parseEnd(remote, to, remote_port))
        continue;
      if (from != *wanted || local_port != peer.port || (our_port != 0 && remote_port != our_port)) continue;
      // One that its process has closed belongs to nobody, which the kernel writes as user 0.
      if (state != kEstablished || inode == 0) return {};
      if (owner && *owner != uid) return {};
      owner = uid;
    }
  }
  return owner;
}

}  // namespace tracesmith::access
