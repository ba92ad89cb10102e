#include "cluster/master/service_calls.hpp"

#include <atomic>
#include <functional>
#include <random>

#include "cluster/master/service_streams.hpp"
#include "cluster/master/trace_sender.hpp"
#include "cluster/wire/convert.hpp"
#include "cluster/wire/live_convert.hpp"

namespace tracesmith::cluster {
namespace {

constexpr int kInviteSeconds = 5;
constexpr int kMostFetches = 16;    // of traces at a time
constexpr int kMostQuestions = 16;  // each holds a thread until the nodes have answered

using Callbacks = pb::ClusterService::WithCallbackMethod_Launch<
    pb::ClusterService::WithCallbackMethod_RunRanks<pb::ClusterService::WithCallbackMethod_StreamEvents<
        pb::ClusterService::WithCallbackMethod_Link<pb::ClusterService::Service>>>>;

/// Every call of the master: who may make it, what it does, and a line in the audit log if it changes something.
class Service final : public Callbacks, public MasterService {
 public:
  Service(Master& master, access::Guard& guard, const MasterOptions& options)
      : master_(master), guard_(guard), options_(options) {
    std::random_device random;
    sync_key_ = static_cast<uint64_t>(random()) << 32 | random();
  }
  grpc::Service& calls() override { return *this; }
  uint64_t syncKey() const override { return sync_key_; }
  void setPorts(uint16_t port, uint16_t sync_port) override {
    port_ = port;
    sync_port_ = sync_port;
  }

  LinkStream* Link(grpc::CallbackServerContext* context) override {
    access::Role role;
    const Status admitted = admit(*context, access::Role::kOperator, role, "Link");
    return serveLink(master_, nodeOf(*context), toGrpc(admitted));
  }

  LaunchStream* Launch(grpc::CallbackServerContext* context) override {
    access::Role role;
    const Status admitted = admit(*context, access::Role::kAdmin, role, "Launch");
    auto audit = [this, role, peer = std::string(context->peer())](const std::string& what, const Status& outcome) {
      guard_.audit(peer, role, "launch", what, outcome);
    };
    return serveLaunch(master_, audit, toGrpc(admitted));
  }

  RanksStream* RunRanks(grpc::CallbackServerContext* context) override {
    access::Role role;
    const Status admitted = admit(*context, access::Role::kOperator, role, "RunRanks");
    return serveRanks(master_, nodeOf(*context), toGrpc(admitted));
  }

  grpc::Status RegisterNode(grpc::ServerContext* context, const pb::RegisterNodeRequest* request,
                            pb::RegisterNodeResponse* response) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kOperator, role, "RegisterNode"); !s.ok()) return s;
    NodeRegistration info = fromMessage(*request);
    info.address = access::Address{peerOf(context->peer()).host, static_cast<uint16_t>(request->port())}.text();
    const Status status = master_.registerNode(info);
    if (status) master_.notBefore(request->reference_id(), request->reference_now_ns(), info.node);
    guard_.audit(context->peer(), role, "register", info.node.substr(0, 64), status);
    response->set_success(status.ok());
    response->set_message(status.message());
    response->set_assigned_node_id(info.node);
    response->set_reference_id(master_.referenceId());
    response->set_sync_port(sync_port_);
    response->set_sync_key(sync_key_);
    response->set_heartbeat_interval_ms(options_.heartbeat_ms);
    return grpc::Status::OK;
  }

  grpc::Status Heartbeat(grpc::ServerContext* context, const pb::HeartbeatRequest* request,
                         pb::HeartbeatResponse* response) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kOperator, role, "Heartbeat"); !s.ok()) return s;
    master_.heartbeat(fromMessage(request->state()));
    for (const CaptureSpan& span : master_.captures()) toMessage(span, *response->add_captures());
    return grpc::Status::OK;
  }

  grpc::Status StartCapture(grpc::ServerContext* context, const pb::StartCaptureRequest* request,
                            pb::StartCaptureResponse* response) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kOperator, role, "StartCapture"); !s.ok()) return s;
    const StartOptions options = fromMessage(*request);
    Result<SessionInfo> session = master_.start(options);
    guard_.audit(context->peer(), role, "start", session ? session->name : options.name, session.status());
    return answer(session, *response);
  }

  grpc::Status StopCapture(grpc::ServerContext* context, const pb::StopCaptureRequest* request,
                           pb::StopCaptureResponse* response) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kOperator, role, "StopCapture"); !s.ok()) return s;
    Result<std::vector<SessionInfo>> stopped = master_.stop(request->name());
    guard_.audit(context->peer(), role, "stop", request->name(), stopped.status());
    if (!stopped) return toGrpc(stopped.status());
    for (const SessionInfo& session : *stopped) toMessage(session, *response->add_sessions());
    return grpc::Status::OK;
  }

  grpc::Status ResumeCapture(grpc::ServerContext* context, const pb::ResumeCaptureRequest* request,
                             pb::StartCaptureResponse* response) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kOperator, role, "ResumeCapture"); !s.ok()) return s;
    const std::string name = request->id().empty() ? request->name() : request->id();
    Result<SessionInfo> session = master_.resume(name);
    guard_.audit(context->peer(), role, "resume", name, session.status());
    return answer(session, *response);
  }

  grpc::Status ListSessions(grpc::ServerContext* context, const pb::ListSessionsRequest*,
                            pb::ListSessionsResponse* response) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kViewer, role, "ListSessions"); !s.ok()) return s;
    for (const SessionInfo& session : master_.sessions()) toMessage(session, *response->add_sessions());
    return grpc::Status::OK;
  }

  grpc::Status DeleteSession(grpc::ServerContext* context, const pb::DeleteSessionRequest* request,
                             pb::DeleteSessionResponse* response) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kAdmin, role, "DeleteSession"); !s.ok()) return s;
    Result<DeletedSession> deleted = master_.deleteSession(request->session());
    guard_.audit(context->peer(), role, "delete", request->session().substr(0, 64), deleted.status());
    if (!deleted) return toGrpc(deleted.status());
    response->set_id(deleted->id);
    response->set_freed_bytes(deleted->freed_bytes);
    return grpc::Status::OK;
  }

  grpc::Status CollectTrace(grpc::ServerContext* context, const pb::CollectTraceRequest* request,
                            grpc::ServerWriter<pb::TraceChunk>* writer) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kViewer, role, "CollectTrace"); !s.ok()) return s;
    // Each holds a thread for as long as its client likes.
    const std::unique_ptr<void, std::function<void(void*)>> counted(this, [&](void*) { --fetching_; });
    if (++fetching_ > kMostFetches) return toGrpc(Status::busy("too many traces are being fetched: try again later"));
    TraceSender sender(*writer);
    LeaveOut leave_out;
    if (request->outline()) {
      leave_out.columns = [&](std::string_view head, const SegmentInfo& segment, uint64_t offset, uint64_t size) {
        return sender.leaveOut(head, segment, offset, size);
      };
      leave_out.tables.insert(request->tables().begin(), request->tables().end());
    }
    Status status = master_.fetch(
        request->session(), [&](std::string_view bytes, uint64_t events) { return sender.take(bytes, events); },
        {request->node_ids().begin(), request->node_ids().end()}, leave_out);
    if (status) status = sender.send(true);
    return toGrpc(status);
  }

  grpc::Status ReadPieces(grpc::ServerContext* context, const pb::ReadPiecesRequest* request,
                          grpc::ServerWriter<pb::TraceChunk>* writer) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kViewer, role, "ReadPieces"); !s.ok()) return s;
    const std::unique_ptr<void, std::function<void(void*)>> counted(this, [&](void*) { --fetching_; });
    if (++fetching_ > kMostFetches) return toGrpc(Status::busy("too many traces are being fetched: try again later"));
    TraceSender sender(*writer);
    Status status;
    File file;
    uint64_t size = 0;
    uint32_t open = UINT32_MAX;  // the segment that `file` is
    for (const pb::SegmentRange& piece : request->pieces()) {
      if (piece.segment() >= static_cast<uint32_t>(request->segments_size()))
        return toGrpc(Status::invalid("a piece of a segment that was not named"));
      if (piece.segment() != open) {
        const pb::SegmentRef& segment = request->segments(static_cast<int>(piece.segment()));
        Result<File> opened = master_.openSegment({segment.node(), segment.epoch(), segment.number()}, size);
        if (!opened) return toGrpc(opened.status());
        file = std::move(*opened);
        open = piece.segment();
      }
      if (piece.offset() > size || piece.size() > size - piece.offset())
        return toGrpc(Status::invalid("a segment ends before the piece"));
      if (status = sender.copy(file, piece.offset(), piece.size()); !status) break;
    }
    if (status) status = sender.send(true);
    return toGrpc(status);
  }

  EventsStream* StreamEvents(grpc::CallbackServerContext* context, const pb::StreamEventsRequest* request) override {
    access::Role role;
    return serveEvents(master_.events(), *request,
                       toGrpc(admit(*context, access::Role::kViewer, role, "StreamEvents")));
  }

  grpc::Status SyncTime(grpc::ServerContext* context, const pb::SyncTimeRequest* request,
                        pb::SyncTimeResponse* response) override {
    response->set_t2(master_.referenceNow());
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kViewer, role, "SyncTime"); !s.ok()) return s;
    response->set_t1(request->t1());
    response->set_t3(master_.referenceNow());
    return grpc::Status::OK;
  }

  grpc::Status GetStatus(grpc::ServerContext* context, const pb::GetStatusRequest*,
                         pb::GetStatusResponse* response) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kViewer, role, "GetStatus"); !s.ok()) return s;
    toMessage(master_.status(), *response);
    return grpc::Status::OK;
  }

  grpc::Status GetLive(grpc::ServerContext* context, const pb::GetLiveRequest*,
                       pb::GetLiveResponse* response) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kViewer, role, "GetLive"); !s.ok()) return s;
    toMessage(master_.watch().live(), *response);
    return grpc::Status::OK;
  }

  grpc::Status GetHang(grpc::ServerContext* context, const pb::GetHangRequest*,
                       pb::GetHangResponse* response) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kViewer, role, "GetHang"); !s.ok()) return s;
    toMessage(master_.watch().hang(), *response);
    return grpc::Status::OK;
  }

  grpc::Status GetProcesses(grpc::ServerContext* context, const pb::GetProcessesRequest* request,
                            pb::GetProcessesResponse* response) override {
    access::Role role;
    if (grpc::Status s = allow(*context, neededFor(*request), role, "GetProcesses"); !s.ok()) return s;
    const std::unique_ptr<void, std::function<void(void*)>> counted(this, [&](void*) { --asking_; });
    if (++asking_ > kMostQuestions) return toGrpc(Status::busy("too many questions are open: try again later"));
    const ProcessQuery query = fromMessage(*request);
    const Result<ClusterProcesses> answer = master_.processes(query);
    if (const std::optional<Deed> deed = deedOf(query))
      guard_.audit(context->peer(), role, deed->what, deed->detail, answer.status());
    if (!answer) return toGrpc(answer.status());
    toMessage(*answer, *response);
    return grpc::Status::OK;
  }

  grpc::Status Answer(grpc::ServerContext* context, const pb::AnswerRequest* request, pb::AnswerResponse*) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kOperator, role, "Answer"); !s.ok()) return s;
    master_.questions().answer(nodeOf(*context), request->id(), fromMessage(request->processes()));
    return grpc::Status::OK;
  }

  grpc::Status AddNode(grpc::ServerContext* context, const pb::AddNodeRequest* request,
                       pb::AddNodeResponse* response) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kAdmin, role, "AddNode"); !s.ok()) return s;
    Result<std::string> node = invite(request->address());
    guard_.audit(context->peer(), role, "add-node", request->address().substr(0, 256), node.status());
    if (!node) return toGrpc(node.status());
    response->set_node_id(*node);
    return grpc::Status::OK;
  }

  grpc::Status RemoveNode(grpc::ServerContext* context, const pb::RemoveNodeRequest* request,
                          pb::RemoveNodeResponse*) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kAdmin, role, "RemoveNode"); !s.ok()) return s;
    const Status status = master_.removeNode(request->node_id());
    guard_.audit(context->peer(), role, "remove-node", request->node_id().substr(0, 64), status);
    return toGrpc(status);
  }

  grpc::Status GetPlans(grpc::ServerContext* context, const pb::GetPlansRequest*,
                        pb::GetPlansResponse* response) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kViewer, role, "GetPlans"); !s.ok()) return s;
    toMessage(master_.balance().status(), *response);
    return grpc::Status::OK;
  }

  grpc::Status ChangePlans(grpc::ServerContext* context, const pb::ChangePlansRequest* request,
                           pb::ChangePlansResponse*) override {
    access::Role role;
    if (grpc::Status s = allow(*context, access::Role::kOperator, role, "ChangePlans"); !s.ok()) return s;
    Status status;
    if (request->undo()) {
      status = master_.balance().undo(request->job());
      guard_.audit(context->peer(), role, "undo-plan", request->job().substr(0, 64), status);
    } else if (request->has_dry_run()) {
      status = master_.balance().setDryRun(request->job(), request->dry_run());
      guard_.audit(context->peer(), role, request->dry_run() ? "dry-run-on" : "dry-run-off",
                   request->job().substr(0, 64), status);
    }
    return toGrpc(status);
  }

  /// Dials an agent and asks it to dial us: from then on it comes by itself.
  Result<std::string> invite(const std::string& text) override {
    Result<access::Address> address = access::parseAddress(text, kAgentPort);
    if (!address) return address.status();
    Result<std::shared_ptr<grpc::Channel>> channel = openChannel(address->text(), options_.security);
    if (!channel) return channel.status();
    Result<std::string> token = access::readToken(options_.security.token_file);
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
  static grpc::Status answer(const Result<SessionInfo>& session, pb::StartCaptureResponse& response) {
    if (!session) return toGrpc(session.status());
    toMessage(*session, *response.mutable_session());
    return grpc::Status::OK;
  }

  /// Which node an agent's call is for.
  static std::string nodeOf(const grpc::ServerContextBase& context) {
    const auto it = context.client_metadata().find(kNodeKey);
    return it == context.client_metadata().end() ? "" : std::string(it->second.data(), it->second.size());
  }
  Status admit(const grpc::ServerContextBase& context, access::Role needed, access::Role& role, const char* call) {
    return guard_.admit(peerOf(context.peer()), tokenOf(context), needed, role, call);
  }
  grpc::Status allow(const grpc::ServerContextBase& context, access::Role needed, access::Role& role,
                     const char* call) {
    return toGrpc(admit(context, needed, role, call));
  }

  Master& master_;
  access::Guard& guard_;
  const MasterOptions options_;
  uint64_t sync_key_ = 0;
  std::atomic<uint16_t> port_{0}, sync_port_{0};
  std::atomic<int> fetching_{0}, asking_{0};
};

}  // namespace

std::unique_ptr<MasterService> makeMasterService(Master& master, access::Guard& guard, const MasterOptions& options) {
  return std::make_unique<Service>(master, guard, options);
}

}  // namespace tracesmith::cluster
