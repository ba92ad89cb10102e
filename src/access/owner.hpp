// Who sits at the other end of a connection on this machine, as the kernel has it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tracesmith::access {

/// The other end of a TCP connection to us.
struct Peer {
  std::string name;   ///< as the audit log calls it
  std::string host;   ///< a numeric address
  uint16_t port = 0;  ///< of the other end
};

/// The user who opened the other end of an established connection to `our_port` (0: not known yet). Nothing if it is
/// not on this machine, has gone, or cannot be told.
std::optional<uid_t> ownerOf(const Peer& peer, uint16_t our_port);

/// Somebody other than this process's user and root who listens at a loopback address and port of this machine, or
/// serves a connection that this process has to it. Nothing if there is nobody else.
std::optional<uid_t> strangerAt(const std::string& host, uint16_t port);

/// A process of this machine that waits for TCP connections.
struct Listener {
  std::string host;  ///< where it can be reached from here
  uint16_t port = 0;
  uid_t uid = 0;  ///< its user
};
/// Those at one of the ports, each once.
std::vector<Listener> listenersAt(const std::set<uint16_t>& ports);

}  // namespace tracesmith::access
