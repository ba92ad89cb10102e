#include "access/owner.hpp"

#include <arpa/inet.h>
#include <strings.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>
#include <utility>

namespace tracesmith::access {
namespace {

constexpr unsigned kEstablished = 1, kListens = 10;

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

/// One line of the kernel's tables.
struct Socket {
  Host local, remote;
  unsigned local_port, remote_port, state, uid;
  unsigned long inode;
};

template <typename Visit>
void visitSockets(Visit visit) {
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      char local[64], remote[64];
      Socket s;
      if (std::sscanf(line.c_str(), " %*u: %63s %63s %x %*s %*s %*s %u %*u %lu", local, remote, &s.state, &s.uid,
                      &s.inode) == 5 &&
          parseEnd(local, s.local, s.local_port) && parseEnd(remote, s.remote, s.remote_port))
        visit(s);
    }
  }
}

/// Whether a socket at `local` gets what is sent to `host`, a loopback address or localhost.
bool receives(const Host& local, const std::string& host) {
  const Host any6{}, any4{0, 0, htonl(0xffff), 0};
  if (local == any6 || local == any4) return true;
  if (::strcasecmp(host.c_str(), "localhost") == 0) return local == *hostOf("127.0.0.1") || local == *hostOf("::1");
  const std::optional<Host> wanted = hostOf(host);
  return wanted && local == *wanted;
}

/// Of the sockets this process has open.
std::set<unsigned long> ownInodes() {
  std::set<unsigned long> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string to = std::filesystem::read_symlink(entry.path(), error).string();
    if (unsigned long inode; std::sscanf(to.c_str(), "socket:[%lu]", &inode) == 1) all.insert(inode);
  }
  return all;
}

}  // namespace

std::optional<uid_t> ownerOf(const Peer& peer, uint16_t our_port) {
  const std::optional<Host> wanted = hostOf(peer.host);
  if (!wanted || peer.port == 0) return {};
  std::optional<uid_t> owner;
  bool unclear = false;
  visitSockets([&](const Socket& s) {
    if (s.local != *wanted || s.local_port != peer.port || (our_port != 0 && s.remote_port != our_port)) return;
    // One that its process has closed belongs to nobody, which the kernel writes as user 0.
    if (s.state != kEstablished || s.inode == 0 || (owner && *owner != s.uid)) unclear = true;
    owner = s.uid;
  });
  return unclear ? std::nullopt : owner;
}

std::optional<uid_t> strangerAt(const std::string& host, uint16_t port) {
  const std::set<unsigned long> own = ownInodes();
  std::set<std::pair<Host, unsigned>> ours;  // our ends of connections to that port
  visitSockets([&](const Socket& s) {
    if (s.remote_port == port && own.contains(s.inode)) ours.insert({s.local, s.local_port});
  });
  std::optional<uid_t> stranger;
  visitSockets([&](const Socket& s) {
    if (s.local_port != port || s.uid == 0 || s.uid == ::geteuid()) return;
    if ((s.state == kListens && receives(s.local, host)) || ours.contains({s.remote, s.remote_port})) stranger = s.uid;
  });
  return stranger;
}

std::vector<Listener> listenersAt(const std::set<uint16_t>& ports) {
  const Host any6{}, any4{0, 0, htonl(0xffff), 0};
  std::vector<Listener> all;
  std::set<std::tuple<Host, unsigned, unsigned>> seen;
  visitSockets([&](const Socket& s) {
    if (s.state != kListens || !ports.contains(static_cast<uint16_t>(s.local_port))) return;
    const bool any = s.local == any4 || s.local == any6;
    const Host host = any ? *hostOf("127.0.0.1") : s.local;
    if (!seen.insert({host, s.local_port, s.uid}).second) return;
    char text[INET6_ADDRSTRLEN];
    const bool v4 = host[0] == 0 && host[1] == 0 && host[2] == htonl(0xffff);
    if (!::inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? &host[3] : host.data(), text, sizeof text)) return;
    all.push_back({text, static_cast<uint16_t>(s.local_port), s.uid});
  });
  return all;
}

}  // namespace tracesmith::access
