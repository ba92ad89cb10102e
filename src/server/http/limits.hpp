// What one client may take of the server.
#pragma once

#include <chrono>
#include <cstddef>

namespace tracesmith::server {

constexpr auto kRequestTime = std::chrono::seconds(10);  ///< from its first byte to its last
constexpr auto kWriteTime = std::chrono::seconds(30);    ///< a client that reads nothing for so long is gone
constexpr auto kIdleTime = std::chrono::seconds(60);     ///< a connection without a request
constexpr size_t kHeaderBytes = 64u << 10;
constexpr size_t kBodyBytes = 1u << 20;
constexpr size_t kConnections = 512;
constexpr size_t kEventStreams = 256;  ///< of them; the rest stays for requests

}  // namespace tracesmith::server
