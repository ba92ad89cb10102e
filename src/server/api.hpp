// The HTTP side as the rest of the program sees it: no HTTP in here. The code behind it is in libtracesmith_server.so,
// which src/cli/libraries.cpp loads when a page is to be served.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/api.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::server {

constexpr uint16_t kHttpPort = 8091;

struct Options {
  std::string listen = "127.0.0.1";
  uint16_t port = kHttpPort;               ///< 0: any
  std::string title;                       ///< of a recorded trace, for people; empty: the name of its file
  std::string other, other_title;          ///< another one to compare it with, and what to call it; empty: none
  std::string data_dir;                    ///< of a cluster: where sessions are laid out for reading, and the audit log
  std::string frames;                      ///< folder for the frames of sessions that end; empty: they are not written
  std::vector<std::string> origins;        ///< other sites whose pages may ask ("https://x.example"); none by default
  std::string program = "/proc/self/exe";  ///< `tracesmith`, which is started for each query of a client
  access::SecurityOptions security;        ///< as of the master
};

/// Serves until it is destroyed.
class Server {
 public:
  virtual ~Server() = default;
  virtual uint16_t port() const = 0;
  virtual bool secure() const = 0;  ///< https
};

class Library {
 public:
  virtual ~Library() = default;
  /// The page of a cluster. The master must outlive it.
  virtual Result<std::unique_ptr<Server>> serveCluster(const Options& options, cluster::Server& master) = 0;
  /// The page of one recorded trace.
  virtual Result<std::unique_ptr<Server>> serveFile(const Options& options, const std::string& trace) = 0;
};

}  // namespace tracesmith::server
