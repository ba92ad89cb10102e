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
  MasterLink(NodeRegistration info, uint16_t agent_port, access::SecurityOptions security, Spool& spool,
             Recorder& recorder, ClockKeeper& clock, LiveReporter& live, ProcessLook& processes, PlanCarrier& plans,
             RankHost& ranks);
  ~MasterLink();

  /// HOST:PORT to keep a connection to; takes the place of the one before. Empty: none.
  void dial(const std::string& address);
  /// What the node has, once it is known: the master is told.
  void setHardware(model::NodeDescription hardware);
  bool connected() const { return connected_; }
  /// Why there is no connection; empty if there is one.
  std::string problem() const;

 private:
  struct Call;
  void loop();
  Status talk(const std::string& address);

  const NodeRegistration info_;  // without its GPUs
  const uint16_t agent_port_;
  const access::SecurityOptions security_;
  Spool& spool_;
  Recorder& recorder_;
  ClockKeeper& clock_;
  LiveReporter& live_;
  ProcessLook& processes_;
  PlanCarrier& plans_;
  RankHost& ranks_;
  std::atomic<bool> connected_{false}, stop_{false};

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::string address_, problem_;
  model::NodeDescription hardware_;  // what was found of GPUs, links, versions
  bool hardware_known_ = false;
  Call* call_ = nullptr;  // of the connection there is
  std::thread thread_;
};

}  // namespace tracesmith::cluster
