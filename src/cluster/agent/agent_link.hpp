// An agent's connection to its master: registers, sends the spool, takes captures; comes back whatever happens.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "access/names.hpp"
#include "cluster/agent/answers.hpp"
#include "cluster/agent/clock_keeper.hpp"
#include "cluster/agent/live_report.hpp"
#include "cluster/agent/outward.hpp"
#include "cluster/agent/plan_carrier.hpp"
#include "cluster/agent/rank_host.hpp"
#include "cluster/agent/recorder.hpp"
#include "cluster/agent/spool.hpp"
#include "cluster/api.hpp"

namespace tracesmith::cluster {

/// Without a token and TLS anybody could listen at a port of this machine, and would get what all users' jobs do.
Status checkMaster(const access::Address& master, const std::string& token, const access::SecurityOptions& security);

/// Runs in its own threads from construction to destruction.
class MasterLink {
 public:
  struct Options {
    NodeRegistration info;  ///< without its GPUs
    uint16_t agent_port = 0;
    access::SecurityOptions security;
    uint64_t max_rate = 0;  ///< bytes of records a second; 0: no limit
  };
  MasterLink(Options options, Outward& outward, Spool& spool, Recorder& recorder, ClockKeeper& clock,
             LiveReporter& live, ProcessLook& processes, PlanCarrier& plans, RankHost& ranks);
  ~MasterLink();

  /// HOST:PORT to keep a connection to; takes the place of the one before. Empty: none.
  void dial(const std::string& address);
  /// What the node has, once it is known: the master is told.
  void setHardware(model::NodeDescription hardware);
  bool connected() const { return connected_; }
  /// Messages to masters, as they are before gRPC and TLS.
  uint64_t sentBytes() const { return sent_bytes_; }
  /// Why there is no connection; empty if there is one.
  std::string problem() const;

 private:
  struct Call;
  void loop();
  Status talk(const std::string& address);

  NodeStatus state() const;

  const Options o_;
  Outward& outward_;
  Spool& spool_;
  Recorder& recorder_;
  ClockKeeper& clock_;
  LiveReporter& live_;
  ProcessLook& processes_;
  PlanCarrier& plans_;
  RankHost& ranks_;
  std::atomic<bool> connected_{false}, stop_{false};
  std::atomic<uint64_t> sent_bytes_{0};

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::string address_, problem_;
  model::NodeDescription hardware_;  // what was found of GPUs, links, versions
  bool hardware_known_ = false;
  Call* call_ = nullptr;  // of the connection there is
  std::thread thread_;
};

}  // namespace tracesmith::cluster
