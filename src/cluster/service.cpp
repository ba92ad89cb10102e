#include "cluster/service.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <random>

#include "cluster/convert.hpp"
#include "cluster/guard.hpp"
#include "cluster/live_alerts.hpp"
#include "cluster/live_convert.hpp"
#include "cluster/local_client.hpp"
#include "cluster/rpc.hpp"
#include "sync/exchange.hpp"

namespace tracesmith::cluster {
namespace {

constexpr int kInviteSeconds = 5;
constexpr size_t kFetchBytes = 1u << 20;
constexpr int kMostFetches = 16;  // of traces at a time

/// Who calls: the address without its port, and the token.
template <typename Context>
Role roleOf(Guard& guard, const Context& context, std::string& why) {
  std::string token;
  const auto& metadata = context.client_metadata();
  if (auto it = metadata.find("authorization"); it != metadata.end()) {
    const std::string_view value(it->second.data(), it->second.size());
    if (value.starts_with("Bearer ")) token = value.substr(7);
  }
  return guard.check(peerHost(context.peer()), token, why);
}

/// One agent's connection: reads pieces and heartbeats, writes acknowledgements and captures.
class LinkReactor final : public grpc::ServerBidiReactor<pb::AgentMessage, pb::MasterMessage> {
 public:
  LinkReactor(Master& master, std::string node) : master_(master), node_(std::move(node)) {}

  /// What the master holds: it outlives the connection.
  class Handle final : public AgentLink {
   public:
    explicit Handle(LinkReactor* reactor) : reactor_(reactor) {}
    void sendCaptures(const std::vector<CaptureSpan>& captures) override {
      std::lock_guard lock(mutex_);
      if (reactor_) reactor_->putCaptures(captures);
    }
    void sendAck(const std::string& epoch, uint32_t segment, uint64_t size, bool expected,
                 const std::string& problem) override {
      std::lock_guard lock(mutex_);
      if (reactor_) reactor_->putAck(epoch, segment, size, expected, problem);
    }
    void end() override {
      std::lock_guard lock(mutex_);
      if (reactor_) reactor_->finish({grpc::StatusCode::ABORTED, "another connection of this node took its place"});
    }
    void forget() {
      std::lock_guard lock(mutex_);
      reactor_ = nullptr;
    }

   private:
    std::mutex mutex_;  // guards reactor_
    LinkReactor* reactor_;
  };

  void start() {
    handle_ = std::make_shared<Handle>(this);
    if (Status s = master_.link(node_, handle_); !s) return finish(toGrpc(s));
    handle_->sendCaptures(master_.captures());
    StartRead(&incoming_);
  }
  void refuse(const grpc::Status& status) { finish(status); }

  void OnReadDone(bool ok) override {
    if (!ok) return finish(grpc::Status::OK);
    Status status;
    if (incoming_.has_heartbeat()) {
      NodeStatus heartbeat = fromMessage(incoming_.heartbeat());
      heartbeat.node = node_;
      master_.heartbeat(heartbeat);
      putCaptures(master_.captures());
    } else if (incoming_.has_chunk()) {
      const pb::SpoolChunk& chunk = incoming_.chunk();
      status = master_.take(node_, chunk.epoch(), chunk.segment(), chunk.offset(), chunk.data());
    } else if (incoming_.has_live()) {
      master_.watch().take(node_, fromMessage(incoming_.live()));
    }
    if (!status) return finish(toGrpc(status));
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (ok) pump();
  }

  void OnCancel() override { finish(grpc::Status::CANCELLED); }

  void OnDone() override {
    if (handle_) {
      handle_->forget();
      master_.unlink(node_, handle_.get());
    }
    delete this;
  }

 private:
  void putCaptures(const std::vector<CaptureSpan>& captures) {
    std::lock_guard lock(mutex_);
    captures_.Clear();
    for (const CaptureSpan& span : captures) toMessage(span, *captures_.mutable_captures()->add_captures());
    if (captures.empty()) captures_.mutable_captures();
    captures_pending_ = true;
    pump();
  }

  void putAck(const std::string& epoch, uint32_t segment, uint64_t size, bool expected, const std::string& problem) {
    std::lock_guard lock(mutex_);
    // Of several acknowledgements for a segment that wait, the last says it all.
    std::erase_if(acks_, [&](const pb::SpoolAck& a) {
      return !a.expected() && !expected && a.segment() == segment && a.epoch() == epoch;
    });
    pb::SpoolAck& ack = acks_.emplace_back();
    ack.set_epoch(epoch);
    ack.set_segment(segment);
    ack.set_size(size);
    ack.set_expected(expected);
    ack.set_problem(problem);
    pump();
  }

  /// Starts the next write. Under mutex_.
  void pump() {
    if (writing_ || finished_) return;
    outgoing_.Clear();
    if (captures_pending_) {
      outgoing_ = captures_;
      captures_pending_ = false;
    } else if (!acks_.empty()) {
      *outgoing_.mutable_ack() = std::move(acks_.front());
      acks_.pop_front();
    } else {
      return;
    }
    writing_ = true;
    StartWrite(&outgoing_);
  }

  void finish(const grpc::Status& status) {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    Finish(status);
  }

  Master& master_;
  const std::string node_;
  std::shared_ptr<Handle> handle_;  // shared with the master
  pb::AgentMessage incoming_;

  std::mutex mutex_;  // guards what follows
  pb::MasterMessage outgoing_, captures_;
  std::deque<pb::SpoolAck> acks_;
  bool captures_pending_ = false, writing_ = false, finished_ = false;
};

/// One client that follows events.
class EventReactor final : public grpc::ServerWriteReactor<pb::TraceEvent> {
 public:
  explicit EventReactor(EventStream& stream) : stream_(stream) {}

  void start(const pb::StreamEventsRequest& request) {
    EventFilter filter;
    filter.nodes.assign(request.node_ids().begin(), request.node_ids().end());
    filter.ranks.assign(request.ranks().begin(), request.ranks().end());
    filter.types.assign(request.types().begin(), request.types().end());
    Result<std::shared_ptr<Subscription>> subscription = stream_.subscribe(filter, [this] { pump(); });
    if (!subscription) return finish(toGrpc(subscription.status()));
    StartSendInitialMetadata();  // the client knows: from now on nothing is missed
    {
      std::lock_guard lock(mutex_);
      subscription_ = *subscription;
    }
    pump();
  }
  void finish(const grpc::Status& status) {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    Finish(status);
  }
  void OnWriteDone(bool ok) override {
    {
      std::lock_guard lock(mutex_);
      writing_ = false;
    }
    if (ok) pump();
  }
  void OnCancel() override { finish(grpc::Status::CANCELLED); }
  void OnDone() override {
    if (subscription_) stream_.unsubscribe(subscription_);
    delete this;
  }

 private:
  void pump() {
    std::lock_guard lock(mutex_);
    LiveEvent event;
    if (writing_ || finished_ || !subscription_ || !subscription_->take(event)) return;
    message_.Clear();
    toMessage(event, message_);
    writing_ = true;
    StartWrite(&message_);
  }

  EventStream& stream_;
  pb::TraceEvent message_;
  std::mutex mutex_;                            // guards what follows
  std::shared_ptr<Subscription> subscription_;  // shared with the stream
  bool writing_ = false, finished_ = false;
};

using Callbacks = pb::ClusterService::WithCallbackMethod_StreamEvents<
    pb::ClusterService::WithCallbackMethod_Link<pb::ClusterService::Service>>;

class Service final : public Callbacks {
 public:
  Service(Master& master, Guard& guard, const MasterOptions& options)
      : master_(master), guard_(guard), options_(options) {
    std::random_device random;
    sync_key_ = static_cast<uint64_t>(random()) << 32 | random();
  }
  uint64_t syncKey() const { return sync_key_; }
  void setPorts(uint16_t port, uint16_t sync_port) {
    port_ = port;
    sync_port_ = sync_port;
  }

  grpc::ServerBidiReactor<pb::AgentMessage, pb::MasterMessage>* Link(grpc::CallbackServerContext* context) override {
    std::string why, node;
    const Role role = roleOf(guard_, *context, why);
    if (auto it = context->client_metadata().find(kNodeKey); it != context->client_metadata().end())
      node = std::string(it->second.data(), it->second.size());
    auto* reactor = new LinkReactor(master_, node);  // deletes itself when the connection ends
    if (role < Role::kOperator)
      reactor->refuse({grpc::StatusCode::UNAUTHENTICATED, why.empty() ? "agents need the role operator" : why});
    else
      reactor->start();
    return reactor;
  }

  grpc::Status RegisterNode(grpc::ServerContext* context, const pb::RegisterNodeRequest* request,
                            pb::RegisterNodeResponse* response) override {
    Role role;
    if (grpc::Status s = allow(*context, Role::kOperator, role); !s.ok()) return s;
    NodeRegistration info;
    info.node = request->node_id();
    info.hostname = request->hostname();
    info.agent_id = request->agent_id();
    info.boot_id = request->boot_id();
    info.version = request->version();
    info.address = Address{peerHost(context->peer()), static_cast<uint16_t>(request->port())}.text();
    for (const pb::DeviceInfo& d : request->gpus()) info.gpus.push_back({d.device_index(), d.name(), d.total_memory()});
    const Status status = master_.registerNode(info);
    guard_.audit(context->peer(), role, "register", info.node.substr(0, 64), status);
    response->set_success(status.ok());
    response->set_message(status.message());
    response->set_assigned_node_id(info.node);
    response->set_sync_port(sync_port_);
    response->set_sync_key(sync_key_);
    response->set_heartbeat_interval_ms(options_.heartbeat_ms);
    return grpc::Status::OK;
  }

  grpc::Status Heartbeat(grpc::ServerContext* context, const pb::HeartbeatRequest* request,
                         pb::HeartbeatResponse* response) override {
    Role role;
    if (grpc::Status s = allow(*context, Role::kOperator, role); !s.ok()) return s;
    master_.heartbeat(fromMessage(*request));
    for (const CaptureSpan& span : master_.captures()) toMessage(span, *response->add_captures());
    return grpc::Status::OK;
  }

  grpc::Status StartCapture(grpc::ServerContext* context, const pb::StartCaptureRequest* request,
                            pb::StartCaptureResponse* response) override {
    Role role;
    if (grpc::Status s = allow(*context, Role::kOperator, role); !s.ok()) return s;
    StartOptions options;
    options.name = request->name();
    options.last_s = request->last_s();
    options.duration_s = request->duration_s();
    options.freq_ms = request->freq_ms();
    options.max_bytes = request->max_bytes();
    options.max_age_s = request->max_age_s();
    Result<SessionInfo> session = master_.start(options);
    guard_.audit(context->peer(), role, "start", session ? session->name : options.name, session.status());
    if (!session) return toGrpc(session.status());
    toMessage(*session, *response->mutable_session());
    return grpc::Status::OK;
  }

  grpc::Status StopCapture(grpc::ServerContext* context, const pb::StopCaptureRequest* request,
                           pb::StopCaptureResponse* response) override {
    Role role;
    if (grpc::Status s = allow(*context, Role::kOperator, role); !s.ok()) return s;
    Result<std::vector<SessionInfo>> stopped = master_.stop(request->name());
    guard_.audit(context->peer(), role, "stop", request->name(), stopped.status());
    if (!stopped) return toGrpc(stopped.status());
    for (const SessionInfo& session : *stopped) toMessage(session, *response->add_sessions());
    return grpc::Status::OK;
  }

  grpc::Status ResumeCapture(grpc::ServerContext* context, const pb::ResumeCaptureRequest* request,
                             pb::StartCaptureResponse* response) override {
    Role role;
    if (grpc::Status s = allow(*context, Role::kOperator, role); !s.ok()) return s;
    const std::string name = request->id().empty() ? request->name() : request->id();
    Result<SessionInfo> session = master_.resume(name);
    guard_.audit(context->peer(), role, "resume", name, session.status());
    if (!session) return toGrpc(session.status());
    toMessage(*session, *response->mutable_session());
    return grpc::Status::OK;
  }

  grpc::Status ListSessions(grpc::ServerContext* context, const pb::ListSessionsRequest*,
                            pb::ListSessionsResponse* response) override {
    Role role;
    if (grpc::Status s = allow(*context, Role::kViewer, role); !s.ok()) return s;
    for (const SessionInfo& session : master_.sessions()) toMessage(session, *response->add_sessions());
    return grpc::Status::OK;
  }

  grpc::Status CollectTrace(grpc::ServerContext* context, const pb::CollectTraceRequest* request,
                            grpc::ServerWriter<pb::TraceChunk>* writer) override {
    Role role;
    if (grpc::Status s = allow(*context, Role::kViewer, role); !s.ok()) return s;
    // Each holds a thread for as long as its client likes.
    const std::unique_ptr<void, std::function<void(void*)>> counted(this, [&](void*) { --fetching_; });
    if (++fetching_ > kMostFetches) return toGrpc(Status::exhausted("many traces are being fetched: try again later"));
    pb::TraceChunk chunk;
    uint64_t next = 0;
    auto send = [&](bool last) -> Status {
      chunk.set_chunk_id(next++);
      chunk.set_is_last(last);
      if (!writer->Write(chunk)) return Status::io("the client went away");
      chunk.Clear();
      return {};
    };
    Status status = master_.fetch(request->session(), [&](std::string_view bytes, uint64_t events) -> Status {
      chunk.mutable_compressed_data()->append(bytes);
      chunk.set_event_count(chunk.event_count() + events);
      return chunk.compressed_data().size() >= kFetchBytes ? send(false) : Status();
    });
    if (status) status = send(true);
    return toGrpc(status);
  }

  grpc::ServerWriteReactor<pb::TraceEvent>* StreamEvents(grpc::CallbackServerContext* context,
                                                         const pb::StreamEventsRequest* request) override {
    std::string why;
    auto* reactor = new EventReactor(master_.events());  // deletes itself when the call ends
    if (roleOf(guard_, *context, why) < Role::kViewer)
      reactor->finish({grpc::StatusCode::UNAUTHENTICATED, why});
    else
      reactor->start(*request);
    return reactor;
  }

  grpc::Status SyncTime(grpc::ServerContext* context, const pb::SyncTimeRequest* request,
                        pb::SyncTimeResponse* response) override {
    response->set_t2(master_.referenceNow());
    Role role;
    if (grpc::Status s = allow(*context, Role::kViewer, role); !s.ok()) return s;
    response->set_t1(request->t1());
    response->set_t3(master_.referenceNow());
    return grpc::Status::OK;
  }

  grpc::Status GetStatus(grpc::ServerContext* context, const pb::GetStatusRequest*,
                         pb::GetStatusResponse* response) override {
    Role role;
    if (grpc::Status s = allow(*context, Role::kViewer, role); !s.ok()) return s;
    const ClusterStatus status = master_.status();
    for (const NodeStatus& node : status.nodes) toMessage(node, *response->add_nodes());
    for (const SessionInfo& session : status.sessions) toMessage(session, *response->add_sessions());
    response->set_now_ns(status.now_ns);
    response->set_problem(status.problem);
    response->set_stored_bytes(status.stored_bytes);
    response->set_version(status.version);
    response->set_memory_bytes(status.memory_bytes);
    return grpc::Status::OK;
  }

  grpc::Status GetLive(grpc::ServerContext* context, const pb::GetLiveRequest*,
                       pb::GetLiveResponse* response) override {
    Role role;
    if (grpc::Status s = allow(*context, Role::kViewer, role); !s.ok()) return s;
    const LiveStatus live = master_.watch().live();
    for (const LiveNode& node : live.nodes) {
      pb::LiveEntry& entry = *response->add_nodes();
      toMessage(node.report, *entry.mutable_report());
      entry.set_age_s(node.age_s);
    }
    response->set_now_ns(live.now_ns);
    return grpc::Status::OK;
  }

  grpc::Status GetHang(grpc::ServerContext* context, const pb::GetHangRequest*,
                       pb::GetHangResponse* response) override {
    Role role;
    if (grpc::Status s = allow(*context, Role::kViewer, role); !s.ok()) return s;
    toMessage(master_.watch().hang(), *response);
    return grpc::Status::OK;
  }

  grpc::Status AddNode(grpc::ServerContext* context, const pb::AddNodeRequest* request,
                       pb::AddNodeResponse* response) override {
    Role role;
    if (grpc::Status s = allow(*context, Role::kAdmin, role); !s.ok()) return s;
    Result<std::string> node = invite(request->address());
    guard_.audit(context->peer(), role, "add-node", request->address().substr(0, 256), node.status());
    if (!node) return toGrpc(node.status());
    response->set_node_id(*node);
    return grpc::Status::OK;
  }

  grpc::Status RemoveNode(grpc::ServerContext* context, const pb::RemoveNodeRequest* request,
                          pb::RemoveNodeResponse*) override {
    Role role;
    if (grpc::Status s = allow(*context, Role::kAdmin, role); !s.ok()) return s;
    const Status status = master_.removeNode(request->node_id());
    guard_.audit(context->peer(), role, "remove-node", request->node_id().substr(0, 64), status);
    return toGrpc(status);
  }

  /// Dials an agent and asks it to dial us: from then on it comes by itself.
  Result<std::string> invite(const std::string& text) {
    Result<Address> address = parseAddress(text, kAgentPort);
    if (!address) return address.status();
    Result<std::shared_ptr<grpc::Channel>> channel = openChannel(address->text(), options_.security);
    if (!channel) return channel.status();
    Result<std::string> token = readToken(options_.security.token_file);
    if (!token) return token.status();
    auto stub = pb::ClusterService::NewStub(*channel);
    grpc::ClientContext context;
    setDeadline(context, kInviteSeconds);
    addToken(context, *token);
    pb::InviteRequest request;
    request.set_master_port(port_);
    if (options_.listen != "0.0.0.0" && options_.listen != "::") request.set_master_host(options_.listen);
    pb::InviteResponse response;
    TS_TRY(fromGrpc(stub->Invite(&context, request, &response), "cannot reach the agent at " + address->text()));
    return response.node_id();
  }

 private:
  grpc::Status allow(grpc::ServerContext& context, Role needed, Role& role) {
    std::string why;
    role = roleOf(guard_, context, why);
    if (role >= needed) return grpc::Status::OK;
    if (role != Role::kNone)
      why = std::string("your token has the role ") + roleName(role) + "; this needs " + roleName(needed);
    if (!guard_.shutOut(peerHost(context.peer())))
      guard_.audit(context.peer(), role, "refused", roleName(needed), Status::invalid(why));
    return {role == Role::kNone ? grpc::StatusCode::UNAUTHENTICATED : grpc::StatusCode::PERMISSION_DENIED, why};
  }

  Master& master_;
  Guard& guard_;
  const MasterOptions options_;
  uint64_t sync_key_ = 0;
  std::atomic<uint16_t> port_{0}, sync_port_{0};
  std::atomic<int> fetching_{0};
};

class MasterServer final : public Server {
 public:
  Status start(MasterOptions options) {
    TS_TRY(checkListen(options.listen, options.security));
    options.data_dir += "/master";
    raiseFileLimit();
    Result<std::unique_ptr<Master>> master = Master::open(options);
    if (!master) return master.status();
    master_ = std::move(*master);
    TS_TRY(guard_.open(options.security, options.data_dir + "/audit.log"));
    Result<std::unique_ptr<AlertSender>> alerts = watchFor(options);
    if (!alerts) return alerts.status();
    alerts_ = std::move(*alerts);
    service_ = std::make_unique<Service>(*master_, guard_, options);
    port_ = options.port;
    Result<std::unique_ptr<grpc::Server>> server = startServer(*service_, options.listen, port_, options.security);
    if (!server) return server.status();
    server_ = std::move(*server);
    // The same number as the service: one port to open. Without it clocks are compared over the service itself.
    Result<std::unique_ptr<sync::ExchangeServer>> exchange = sync::ExchangeServer::start(
        options.listen, port_, service_->syncKey(), [m = master_.get()] { return m->referenceNow(); });
    if (exchange) exchange_ = std::move(*exchange);
    service_->setPorts(port_, exchange_ ? exchange_->port() : 0);
    return {};
  }
  ~MasterServer() override {
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  }
  uint16_t port() const override { return port_; }
  std::string name() const override { return "master"; }
  NodeStatus status() const override { return {}; }
  Status startCapture() override { return Status::unsupported("a master captures by sessions"); }
  Status stopCapture() override { return startCapture(); }
  Status exportTrace(const std::string&) override { return startCapture(); }
  std::unique_ptr<Client> client() override {
    return makeLocalClient(*master_, [this](const std::string& address) { return service_->invite(address); });
  }

 private:
  /// Every agent takes a connection and an open file.
  static void raiseFileLimit() {
    rlimit limit;
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }

  /// Alerts of the watcher go out, and a hang is kept.
  Result<std::unique_ptr<AlertSender>> watchFor(const MasterOptions& options) {
    auto audit = [this](const std::string& action, const std::string& what, const Status& outcome) {
      guard_.audit("watcher", Role::kOperator, action, what, outcome);
    };
    Result<std::unique_ptr<AlertSender>> sender = AlertSender::create(options.webhook, options.on_alert, audit);
    if (!sender) return sender;
    master_->watch().setSink([audit, master = master_.get(), out = sender->get(), freeze_s = options.freeze_s](
                                 const analysis::live::Alert& alert, const analysis::live::HangVerdict& verdict) {
      audit("alert", alert.kind + ": " + alert.text.substr(0, 1024), {});
      if (alert.kind == "hang" && freeze_s > 0) {
        Result<SessionInfo> session = freeze(*master, freeze_s);
        audit("freeze", session ? session->name : "", session.status());
      }
      out->send(alert, verdict);
    });
    return sender;
  }

  Guard guard_;
  std::unique_ptr<AlertSender> alerts_;  // before the master, whose watcher uses it
  std::unique_ptr<Master> master_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<sync::ExchangeServer> exchange_;
  std::unique_ptr<grpc::Server> server_;
  uint16_t port_ = 0;
};

}  // namespace

Result<std::unique_ptr<Server>> startMasterServer(const MasterOptions& options) {
  auto server = std::make_unique<MasterServer>();
  TS_TRY(server->start(options));
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace tracesmith::cluster
