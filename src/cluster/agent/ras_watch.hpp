// Ranks of jobs that were started without us, as NCCL itself tells of them: which operations each has launched.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "analysis/live/report.hpp"
#include "process/ras.hpp"

namespace tracesmith::cluster {

/// What is known of the ranks of this machine, from one answer to the next. Not thread safe.
class RasRanks {
 public:
  explicit RasRanks(std::string root) : root_(std::move(root)) {}

  /// `uid`: the user whose process answered. It can tell of this user's processes alone.
  void take(const process::RasAnswer& answer, uint32_t uid, int64_t now_ns);
  /// Without those under the probe and their communicators, which tell more themselves.
  std::vector<analysis::live::ProcessReport> report(const std::vector<analysis::live::ProcessReport>& probed,
                                                    int64_t now_ns);

 private:
  struct Count {
    uint64_t launched = 0;
    int64_t since_ns = 0;  // when it was first so
  };
  struct Member {
    int32_t rank = -1, size = -1;
    int64_t told_ns = 0;  // when NCCL last counted
    std::map<std::string, Count> counts;
  };
  struct Process {
    std::map<uint64_t, Member> comms;
    std::string nccl;
    int32_t rank = -1;    // of the job
    int64_t gone_ns = 0;  // when it was seen to have ended; 0: it runs
    uint64_t cpu_ns = 0, io_bytes = 0;
    int64_t read_ns = 0;  // when these were read
  };
  bool isLocal(const std::string& host);
  void addHost(int64_t pid, Process& process, int64_t now_ns, analysis::live::ProcessReport& report) const;

  const std::string root_;
  std::map<int64_t, Process> processes_;
  std::set<std::string> addresses_;  // of this machine
};

/// Asks in a thread of its own: an answer can take seconds.
class RasWatch {
 public:
  /// `port`: to ask there alone; nothing: wherever jobs of this machine listen.
  RasWatch(std::string root, std::optional<uint16_t> port);
  ~RasWatch();
  std::vector<analysis::live::ProcessReport> report(const std::vector<analysis::live::ProcessReport>& probed);

 private:
  void loop();
  /// How long nobody needs to ask again.
  std::chrono::milliseconds askAll();

  const std::string root_;
  const std::optional<uint16_t> port_;
  std::set<uint16_t> ports_;  // used by the thread alone
  int64_t ports_ns_ = 0;      // when they were looked for

  std::mutex mutex_;  // guards what follows
  std::condition_variable stopped_;
  RasRanks ranks_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tracesmith::cluster
