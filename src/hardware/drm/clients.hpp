// What processes do on a GPU, from /proc/<pid>/fdinfo (kernel: Documentation/gpu/drm-usage-stats.rst).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hardware/drm/card.hpp"

namespace tracesmith::hardware {

class Clients {
 public:
  Clients(std::string root, Card card) : root_(std::move(root)), card_(std::move(card)) {}

  struct Usage {
    std::map<std::string, double> engine_percent;  ///< by engine, over all processes
    std::map<int64_t, double> process_bytes;       ///< device memory by pid
    bool seen = false;                             ///< some process could be looked at
  };
  /// Since the last call. Processes that may not be looked at are left out.
  Usage read(int64_t now_ns);

 private:
  struct Engine {
    uint64_t busy = 0, total = 0;  // ns, or cycles of total cycles
  };
  struct Client {
    std::map<std::string, Engine> engines;
  };
  void findFiles();

  std::string root_;
  Card card_;
  std::vector<std::pair<int64_t, std::string>> files_;  // pid, fdinfo file
  std::map<std::string, Client> last_;                  // by client id
  int64_t last_ns_ = 0, found_ns_ = 0;
};

}  // namespace tracesmith::hardware
