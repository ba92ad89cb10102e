// What NCCL says of itself: since 2.24, a thread in every process of a job knows all its communicators and answers on a
// local socket ("RAS"), with no preparation of the job. It tells how many operations each rank has launched, not which
// have ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::process {

struct RasRank {
  int32_t rank = -1;     ///< in its communicator
  std::string host;      ///< address of its node
  int64_t pid = -1;      ///< as its container numbers it
  bool missing = false;  ///< it did not answer the others: `launched` is not known
  /// By NCCL's name of the function. Sends and receives are not counted.
  std::vector<std::pair<std::string, uint64_t>> launched;
};

struct RasCommunicator {
  uint64_t hash = 0;
  int32_t size = -1;
  std::vector<RasRank> ranks;
};

struct RasAnswer {
  std::string nccl;  ///< its version
  std::vector<RasCommunicator> communicators;
};

/// `text`: what was answered, with the lines before the JSON. Forgives missing commas and unknown members.
Result<RasAnswer> parseRas(std::string_view text);

/// Asks the socket at a local port. NCCL itself waits for its ranks for `patience` and answers without those that are
/// silent; two seconds later we give up, or within 0.1 s once `stop` says so.
Result<std::string> askRas(const std::string& host, uint16_t port, std::chrono::seconds patience,
                           const std::function<bool()>& stop = {});

/// Where jobs of this machine may listen: NCCL's own port, and those in NCCL_RAS_ADDR of its processes.
std::set<uint16_t> rasPorts(const std::string& root);

/// The number that the machine has for a process that calls itself `pid`, which has the user `uid`. Nothing if there is
/// none, or more than one.
std::optional<int64_t> hostPid(const std::string& root, int64_t pid, uint32_t uid);

}  // namespace tracesmith::process
