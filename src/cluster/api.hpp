// The cluster as the rest of the program sees it: no gRPC in here. The code behind it is in libtracesmith_cluster.so,
// which src/cli/libraries.cpp loads when a cluster command is given.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "access/guard.hpp"
#include "base/file.hpp"
#include "base/metric_set.hpp"
#include "model/travel.hpp"
#include "sink/options.hpp"
#include "sync/clock_fit.hpp"
#include "sync/sources.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/common/types.hpp"

namespace tracesmith::cluster {

using namespace model;  // sessions, nodes, reports: what travels

constexpr uint16_t kMasterPort = 50051, kAgentPort = 50052;
constexpr const char* kDefaultData = "tracesmith-data";

struct AgentOptions {
  std::string listen = "127.0.0.1";
  uint16_t port = kAgentPort;  ///< 0: any
  std::string master;          ///< HOST:PORT; empty: wait for an invitation
  std::string data_dir = kDefaultData;
  std::string node_id;                  ///< empty: the host name (with the port, unless it is the usual one)
  std::string ring_folder;              ///< empty: as ring::ringFolder()
  int sim_gpus = 0;                     ///< simulated GPUs
  int sim_ranks = 0;                    ///< of the simulated job they belong to; 0: they are all of it
  int sim_first_rank = 0;               ///< the first that runs here
  uint64_t sim_start = 0;               ///< when that job began, Unix seconds: the same for all its nodes; 0: now
  std::vector<std::string> sim_faults;  ///< as `synth --fault` takes them
  uint32_t freq_ms = 500;               ///< of telemetry, where a session does not say
  double keep_rings_s = 600;            ///< of ended processes, where nobody recorded them
  uint64_t segment_bytes = 32u << 20;   ///< of a file of the spool, about
  int tick_ms = 20;                     ///< between two looks at the rings while recording, less where they fill fast
  bool ras = true;                      ///< ask NCCL about jobs that were started without us,
  uint16_t ras_port = 0;                ///< at this port alone; 0: wherever they listen
  bool allow_launch = false;            ///< start jobs that an admin sends through the master
  bool allow_eval = false;              ///< run code in processes for admins: attach, eval, values of variables
  std::string interface;  ///< network interface that what goes to the master takes; empty: the kernel says
  uint64_t max_rate = 0;  ///< bytes of records a second to the master; 0: no limit
  sync::Source clock;     ///< what this node's clock is compared with; by default the master's
  access::SecurityOptions security;
};

struct MasterOptions {
  std::string listen = "127.0.0.1";
  uint16_t port = kMasterPort;  ///< 0: any
  std::string data_dir = kDefaultData;
  uint32_t heartbeat_ms = 5000;
  uint32_t timeout_ms = 30000;  ///< a node silent for longer is unhealthy
  uint32_t freq_ms = 500;
  std::string nodes_file;  ///< nodes.yaml; empty: none
  std::string webhook;     ///< http://…: gets alerts of the watcher as JSON
  std::string on_alert;    ///< a program and its arguments: gets them on its standard input
  double freeze_s = 0;     ///< on a hang a session of the last so many seconds is kept; 0: none
  sink::Options exports;   ///< where metrics and spans go; its folder is the master's own
  access::SecurityOptions security;
};

struct ClientOptions {
  std::string master = "127.0.0.1:50051";
  bool agent = false;  ///< `master` is an agent's address: only processes() can be asked
  access::SecurityOptions security;
};

/// What `cluster certs` makes.
struct CertificateOptions {
  std::string folder;
  std::vector<std::string> hosts;  ///< names and addresses of servers, besides localhost
  int days = 825;
  std::string authority;     ///< folder with ca.pem and ca-key.pem to sign with; empty: a new one
  int64_t valid_from_s = 0;  ///< Unix seconds; 0: now
};

/// What a subscriber wants; empty: all.
struct EventFilter {
  std::vector<std::string> nodes;
  std::vector<int64_t> ranks;
  std::vector<std::string> types;  ///< kernel, memcpy, …, collective
};

/// An event soon after it was recorded. Its timestamp is Unix ns of the master.
struct LiveEvent {
  std::string node;
  std::optional<int64_t> rank;   ///< absent: not known
  uint64_t lost = 0;             ///< that were asked for and did not get here, since the event before
  tracesmith::TraceEvent event;  ///< of type Unknown: there is none, only a loss
};

/// A job that is to be started on the nodes.
struct LaunchOptions {
  std::vector<std::string> command;      ///< a program and its arguments, the same for all ranks
  std::vector<std::string> nodes;        ///< in the order of ranks; empty: all that are connected, by name
  uint32_t per_node = 0;                 ///< ranks; 0: one for each GPU, at least one
  uint16_t master_port = 29500;          ///< MASTER_PORT
  std::string master_addr;               ///< empty: the address of the first node
  std::vector<std::string> environment;  ///< NAME=VALUE, besides that of the agents
  std::string folder;                    ///< to start in; empty: that of the agents
  double grace_s = 10;                   ///< between SIGTERM and SIGKILL, for ranks that are to end
  std::string mode = "default";          ///< of the probe; empty: without it
  /// Sizes of the job's groups: ranks that exchange most get GPUs near each other. All 0: ranks in the order of nodes
  /// and GPUs.
  uint32_t tensor = 0, data = 0, pipeline = 0;
};

/// What a client of a launched job is told, in this order; by the thread that launched it.
class LaunchFollower {
 public:
  virtual ~LaunchFollower() = default;
  virtual void started(const std::vector<LaunchedRank>& ranks) = 0;
  /// A piece of what a rank printed.
  virtual void output(uint32_t rank, bool error, std::string_view text) = 0;
  virtual void ended(const RankEnd& end) = 0;
};

struct DeletedSession {
  std::string id;
  uint64_t freed_bytes = 0;  ///< of the master's disk
};

/// A trace of a session that still records, in a file of its own. One thread at a time.
class SessionCopy {
 public:
  virtual ~SessionCopy() = default;
  /// Appends what has come since the last call; `progress` gets the bytes of this call so far.
  virtual Status more(const std::function<void(uint64_t)>& progress) = 0;
};

/// A segment in the master's store, and a part of it.
struct SegmentName {
  std::string node, epoch;
  uint32_t number = 0;
  bool operator==(const SegmentName&) const = default;
};
struct SegmentPiece {
  SegmentName segment;
  uint64_t offset = 0, size = 0;
};

/// The trace of a session without the columns of its large blocks, as it comes.
class OutlineSink {
 public:
  virtual ~OutlineSink() = default;
  virtual Status bytes(std::string_view bytes) = 0;
  /// The next bytes of the trace are left out: the master has them there.
  virtual Status leftOut(const SegmentName& segment, uint64_t offset, uint64_t size) = 0;
};

/// What gives the traces of sessions.
class SessionTraces {
 public:
  virtual ~SessionTraces() = default;
  /// The session as one trace; with an empty name all that is stored. `sink` gets its bytes in order; they are all of
  /// it only if this succeeds. Of these nodes alone; empty: of all.
  virtual Status fetchTo(const std::function<Status(std::string_view)>& sink, const std::string& name_or_id,
                         const std::vector<std::string>& nodes = {}) = 0;
  /// The same into a file, which is whole or absent. `progress` gets the bytes so far.
  Status fetch(const std::string& name_or_id, const std::string& path, const std::function<void(uint64_t)>& progress,
               const std::vector<std::string>& nodes = {}) {
    Result<OutputFile> out = OutputFile::create(path);
    if (!out) return out.status();
    uint64_t bytes = 0;
    auto write = [&](std::string_view data) -> Status {
      TS_TRY(out->write(data));
      if (progress) progress(bytes += data.size());
      return {};
    };
    TS_TRY(fetchTo(write, name_or_id, nodes));
    return out->commit();
  }
  /// The same without most of its bytes: a query needs few of them. What was left out can be read with readPieces().
  /// Of tables with a column `ts` only these, and losses; empty: of all.
  virtual Status outline(const std::string& name_or_id, const std::vector<std::string>& tables, OutlineSink& sink) {
    (void)name_or_id, (void)tables, (void)sink;
    return Status::unsupported("there is no outline of this trace");
  }
  /// Their bytes, one piece after the other, in any portions.
  virtual Status readPieces(const std::vector<SegmentPiece>& pieces,
                            const std::function<Status(std::string_view)>& sink) {
    (void)pieces, (void)sink;
    return Status::unsupported("there is no outline of this trace");
  }
  /// A copy that grows, at a new file; nullptr: only a client in the master's process has it.
  virtual std::unique_ptr<SessionCopy> copy(const std::string& id, const std::string& path) {
    (void)id, (void)path;
    return nullptr;
  }
};

/// A user's connection to a master. One thread at a time.
class Client : public SessionTraces {
 public:
  virtual Result<ClusterStatus> status() = 0;
  virtual Result<std::string> addNode(const std::string& address) = 0;
  virtual Status removeNode(const std::string& node) = 0;
  virtual Result<SessionInfo> start(const StartOptions& options) = 0;
  /// Empty name: all that are recording.
  virtual Result<std::vector<SessionInfo>> stop(const std::string& name) = 0;
  /// Goes on with a session that has ended.
  virtual Result<SessionInfo> resume(const std::string& name_or_id) = 0;
  virtual Result<std::vector<SessionInfo>> sessions() = 0;
  /// Deletes a session that has ended, by its id or by a name that only it has, with the data no other session needs.
  virtual Result<DeletedSession> deleteSession(const std::string& name_or_id) = 0;
  virtual Result<LiveStatus> live() = 0;
  virtual Result<HangStatus> hang() = 0;
  /// Running processes and their stacks, as the nodes find them now. Fails if nobody could be asked; nodes that did not
  /// answer in time are in the answer, with the reason.
  virtual Result<ClusterProcesses> processes(const ProcessQuery& query) = 0;
  /// Jobs that are balanced, and their plans.
  virtual Result<BalanceStatus> plans() = 0;
  /// Back to the plan before.
  virtual Status undoPlan(const std::string& job) = 0;
  /// Whether plans of the job are only told.
  virtual Status setDryRun(const std::string& job, bool dry_run) = 0;
  /// What workers without a probe measured, and their plans. Only a client in the master's process has it.
  virtual Result<std::vector<WorkerPlan>> work(const std::vector<WorkerStep>& steps) {
    (void)steps;
    return Status::unsupported("workers report to the HTTP API of the master");
  }
  /// The cluster now, for monitoring systems. Only a client in the master's process has it.
  virtual Result<MetricSet> metrics() { return Status::unsupported("the HTTP API of the master has /metrics"); }
  /// Exchanges of timestamps with the master's clock, over the connection.
  virtual Result<std::vector<sync::Exchange>> syncTime(int count) = 0;
  /// Events of sessions that record, as agents send them, until `visit` says false or cancel() is called. `begun` is
  /// called when the subscription is in force: what comes after is visited or counted as lost.
  virtual Status follow(const EventFilter& filter, const std::function<void()>& begun,
                        const std::function<bool(const LiveEvent&)>& visit) = 0;
  /// Starts a job and follows it to its end. Fails if it could not be started, or the master was lost; how the ranks
  /// ended is the follower's to judge. If this client goes, the job ends.
  virtual Status launch(const LaunchOptions& options, LaunchFollower& follower) {
    (void)options, (void)follower;
    return Status::unsupported("jobs are launched over the network only");
  }
  /// Has all ranks of the job end, and launch() go on to tell of it. Of another thread.
  virtual void stopLaunch() {}
  /// Ends a follow(), fetch() or launch(), of another thread or from what they call.
  virtual void cancel() = 0;
};

/// A server in this process: an agent or a master.
class Server {
 public:
  virtual ~Server() = default;
  virtual uint16_t port() const = 0;
  virtual std::string name() const = 0;  ///< of the node, or "master"
  /// An agent's own view of itself; empty for a master.
  virtual NodeStatus status() const = 0;
  /// An agent's own capture, which no master asked for. One at a time.
  virtual Status startCapture() = 0;
  virtual Status stopCapture() = 0;
  /// What the last one recorded, as one trace; waits for what probes still hold.
  virtual Status exportTrace(const std::string& path) = 0;
  /// An agent compares its clock now, besides the comparisons that go on all the time.
  virtual Status synchronizeTime() { return Status::unsupported("a master's clock is the reference"); }
  /// A master's client in this process, for any thread: it may do everything, and goes before the server does.
  /// Empty for an agent.
  virtual std::unique_ptr<Client> client() { return nullptr; }
};

class Library {
 public:
  virtual ~Library() = default;
  virtual Result<std::unique_ptr<Server>> startAgent(const AgentOptions& options) = 0;
  virtual Result<std::unique_ptr<Server>> startMaster(const MasterOptions& options) = 0;
  virtual Result<std::unique_ptr<Client>> connect(const ClientOptions& options) = 0;
  /// What a ClickHouse answers that a master fills; kInvalid: the statement is wrong.
  virtual Result<std::string> askClickHouse(const std::string& address, const std::string& sql) = 0;
  /// Returns the files it wrote.
  virtual Result<std::vector<std::string>> makeCertificates(const CertificateOptions& options) = 0;
};

}  // namespace tracesmith::cluster
