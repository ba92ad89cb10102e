// The master without its network side: who belongs to the cluster, what is to be recorded, what is stored.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/metric_set.hpp"
#include "cluster/api.hpp"
#include "cluster/master/balance_desk.hpp"
#include "cluster/master/clickhouse_feed.hpp"
#include "cluster/master/declared_nodes.hpp"
#include "cluster/master/event_stream.hpp"
#include "cluster/master/launches.hpp"
#include "cluster/master/live_watch.hpp"
#include "cluster/master/questions.hpp"
#include "cluster/master/sessions.hpp"
#include "cluster/master/span_feed.hpp"
#include "cluster/master/store.hpp"
#include "cluster/wire/merge.hpp"

namespace tracesmith::cluster {

/// The master's end of an agent's connection. Methods may be called from any thread and do not block.
class AgentLink {
 public:
  virtual ~AgentLink() = default;
  virtual void sendCaptures(const std::vector<CaptureSpan>& captures) = 0;
  virtual void sendAck(const std::string& epoch, uint32_t segment, uint64_t size, bool expected,
                       const std::string& problem) = 0;
  virtual void sendQuestion(uint64_t id, const ProcessQuery& query) = 0;
  virtual void sendPlan(const PlanOrder& order) = 0;
  virtual void sendLaunch(const std::string& id) = 0;
  /// Another connection of the node has taken its place.
  virtual void end() = 0;
};

/// Thread safe.
class Master {
 public:
  static Result<std::unique_ptr<Master>> open(const MasterOptions& options);
  ~Master();

  /// The reference clock: Unix time as it was when this master was first started on this boot, or the last time that
  /// is stored if that is later, going on with the raw clock, so that it is never set.
  int64_t referenceNow() const;
  /// One for each data folder.
  const std::string& referenceId() const { return reference_id_; }
  /// What a node that was compared with this clock before takes it to be: the clock does not go back behind that.
  void notBefore(const std::string& reference_id, int64_t now_ns, const std::string& node);

  /// Fails if the name belongs to another agent that is alive.
  Status registerNode(const NodeRegistration& info);
  Status removeNode(const std::string& node);
  bool connected(const std::string& node) const;
  /// What nodes.yaml says.
  DeclaredNodes& declared() { return declared_; }
  void heartbeat(const NodeStatus& status);
  /// A new link takes the place of an older one. Unlink only removes the link it is given.
  Status link(const std::string& node, std::shared_ptr<AgentLink> link);
  void unlink(const std::string& node, const AgentLink* link);
  /// A piece of a node's spool; acknowledged over its link once it is durable.
  Status take(const std::string& node, const std::string& epoch, uint32_t segment, uint64_t offset,
              std::string_view data);

  /// A node's agent has removed what it had up to here.
  void agentRemoved(const std::string& node, const SpoolMark& mark);

  Result<SessionInfo> start(const StartOptions& options);
  Result<std::vector<SessionInfo>> stop(const std::string& name);
  Result<SessionInfo> resume(const std::string& name_or_id);
  std::vector<SessionInfo> sessions();
  Result<DeletedSession> deleteSession(const std::string& name_or_id);
  std::vector<CaptureSpan> captures();
  /// Empty: all that is stored.
  /// Of these nodes alone; empty: of all.
  Status fetch(const std::string& name_or_id, const TraceSink& sink, const std::vector<std::string>& nodes = {},
               const LeaveOut& leave_out = {});
  /// A segment that an outline named, and how much of it is there. kNotFound: retention has removed it since.
  Result<File> openSegment(const SegmentName& name, uint64_t& size) const;
  /// Of a session that records: what has come since the last call with this one.
  Status fetchMore(const std::string& id, GrowingSession& growing, const TraceSink& sink);
  ClusterStatus status();
  /// The cluster now, for monitoring systems.
  MetricSet metrics();
  /// Asks the nodes, and waits for them for some seconds at most.
  Result<ClusterProcesses> processes(const ProcessQuery& query, int wait_ms = 5000);
  Questions& questions() { return questions_; }
  /// The jobs that are balanced.
  BalanceDesk& balance() { return *balance_; }
  /// Which rank runs where. Fails if a node is not there or does not allow it.
  Result<LaunchPlan> planLaunch(const pb::LaunchRequest& request);
  /// Offers a job to the agents of its nodes. `wake`: there is news for the client.
  std::shared_ptr<Launch> launch(LaunchPlan plan, Launch::Wake wake);  // shared with the streams
  Launches& launches() { return launches_; }
  /// What agents send, as it comes.
  EventStream& events() { return events_; }
  /// What nodes say every second, and what it means.
  LiveWatch& watch() { return *watch_; }

 private:
  struct Node {
    NodeRegistration info;
    NodeStatus last;
    std::chrono::steady_clock::time_point heard{};
    std::shared_ptr<AgentLink> link;  // shared with the connection, which may end at any time
    bool known = false;               // has registered with this run of the master
  };
  Master() = default;
  Status startExports();
  bool delivered(const SegmentInfo& segment) const;
  Status openReference();
  std::string referenceFile() const;
  Status writeReference() const;
  void writeUnwritten();
  void sendCaptures();
  void sendPlan(const std::string& node, const PlanOrder& order);
  void syncLoop();
  void keepHouse();
  SessionRecord everything() const;
  std::vector<SessionLoss> lossesOf(const SessionRecord& session, const std::vector<SessionNode>& nodes) const;
  SessionInfo describe(const SessionRecord& session);
  Result<uint64_t> removeDataOf(const SessionRecord& gone);
  bool healthy(const Node& node) const;
  bool lately(const Node& node) const;
  Status saveNode(const NodeRegistration& info) const;
  void loadNodes();

  MasterOptions options_;
  int lock_ = -1;
  std::atomic<int64_t> anchor_ns_{0};  // reference − raw clock
  std::string reference_id_;
  std::atomic<int64_t> unsure_until_ns_{0};  // reference clock: until then it may be behind what nodes know
  mutable std::mutex files_mutex_;           // one thread at a time writes the files of clock and nodes
  std::unique_ptr<Store> store_;
  Sessions sessions_;
  EventStream events_;
  Questions questions_;
  DeclaredNodes declared_;
  Launches launches_;
  std::unique_ptr<LiveWatch> watch_;
  std::unique_ptr<BalanceDesk> balance_;
  std::unique_ptr<sink::Exports> exports_;  // none: nobody wants metrics
  std::unique_ptr<SpanFeed> spans_;
  std::unique_ptr<ClickHouseFeed> clickhouse_;                 // none: nobody wants the rows
  std::chrono::steady_clock::time_point reference_written_{};  // of the thread

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::string, Node> nodes_;
  std::string problem_, sync_problem_, write_problem_;  // of taking pieces, of making them durable, of other files
  std::set<std::string> unwritten_;                     // nodes whose description is not on disk
  bool dirty_ = false, stop_ = false;
  std::thread syncer_;
};

}  // namespace tracesmith::cluster
