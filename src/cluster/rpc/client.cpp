#include "cluster/rpc/client.hpp"

#include <cmath>
#include <mutex>

#include "access/guard.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"
#include "cluster/rpc/rpc.hpp"
#include "cluster/wire/convert.hpp"
#include "cluster/wire/live_convert.hpp"
#include "process/act.hpp"
#include "sync/exchange.hpp"
#include "trace/layout.hpp"

namespace tracesmith::cluster {
namespace {

constexpr int kSeconds = 10;

class RpcClient final : public Client {
 public:
  Status open(const ClientOptions& options) {
    Result<access::Address> address = access::parseAddress(options.master, kMasterPort);
    if (!address) return address.status();
    what_ = std::string("cannot reach the ") + (options.agent ? "agent" : "master") + " at " + address->text();
    Result<std::string> token = access::clientToken(options.security);
    if (!token) return token.status();
    token_ = *token;
    Result<std::shared_ptr<grpc::Channel>> channel = openChannel(address->text(), options.security);
    if (!channel) return channel.status();
    stub_ = pb::ClusterService::NewStub(*channel);
    return {};
  }

  Result<ClusterStatus> status() override {
    pb::GetStatusResponse response;
    TS_TRY(call(&pb::ClusterService::Stub::GetStatus, pb::GetStatusRequest(), response));
    return fromMessage(response);
  }

  Result<std::string> addNode(const std::string& address) override {
    pb::AddNodeRequest request;
    request.set_address(address);
    pb::AddNodeResponse response;
    TS_TRY(call(&pb::ClusterService::Stub::AddNode, request, response));
    return response.node_id();
  }

  Status removeNode(const std::string& node) override {
    pb::RemoveNodeRequest request;
    request.set_node_id(node);
    pb::RemoveNodeResponse response;
    return call(&pb::ClusterService::Stub::RemoveNode, request, response);
  }

  Result<SessionInfo> start(const StartOptions& options) override {
    pb::StartCaptureRequest request;
    cluster::toMessage(options, request);
    pb::StartCaptureResponse response;
    TS_TRY(call(&pb::ClusterService::Stub::StartCapture, request, response));
    return fromMessage(response.session());
  }

  Result<std::vector<SessionInfo>> stop(const std::string& name) override {
    pb::StopCaptureRequest request;
    request.set_name(name);
    pb::StopCaptureResponse response;
    TS_TRY(call(&pb::ClusterService::Stub::StopCapture, request, response));
    std::vector<SessionInfo> stopped;
    for (const pb::Session& session : response.sessions()) stopped.push_back(fromMessage(session));
    return stopped;
  }

  Result<SessionInfo> resume(const std::string& name_or_id) override {
    pb::ResumeCaptureRequest request;
    request.set_name(name_or_id);
    pb::StartCaptureResponse response;
    TS_TRY(call(&pb::ClusterService::Stub::ResumeCapture, request, response));
    return fromMessage(response.session());
  }

  Result<std::vector<SessionInfo>> sessions() override {
    pb::ListSessionsResponse response;
    TS_TRY(call(&pb::ClusterService::Stub::ListSessions, pb::ListSessionsRequest(), response));
    std::vector<SessionInfo> all;
    for (const pb::Session& session : response.sessions()) all.push_back(fromMessage(session));
    return all;
  }

  Result<DeletedSession> deleteSession(const std::string& name_or_id) override {
    pb::DeleteSessionRequest request;
    request.set_session(name_or_id);
    pb::DeleteSessionResponse response;
    TS_TRY(call(&pb::ClusterService::Stub::DeleteSession, request, response));
    return DeletedSession{response.id(), response.freed_bytes()};
  }

  Result<LiveStatus> live() override {
    pb::GetLiveResponse response;
    TS_TRY(call(&pb::ClusterService::Stub::GetLive, pb::GetLiveRequest(), response));
    return fromMessage(response);
  }

  Result<HangStatus> hang() override {
    pb::GetHangResponse response;
    TS_TRY(call(&pb::ClusterService::Stub::GetHang, pb::GetHangRequest(), response));
    return fromMessage(response);
  }

  Result<ClusterProcesses> processes(const ProcessQuery& query) override {
    pb::GetProcessesRequest request;
    cluster::toMessage(query, request);
    pb::GetProcessesResponse response;
    const int longer = static_cast<int>(std::ceil(process::secondsOf(query)));
    TS_TRY(call(&pb::ClusterService::Stub::GetProcesses, request, response, longer));
    return fromMessage(response);
  }

  Result<BalanceStatus> plans() override {
    pb::GetPlansResponse response;
    TS_TRY(call(&pb::ClusterService::Stub::GetPlans, pb::GetPlansRequest(), response));
    return fromMessage(response);
  }

  Status undoPlan(const std::string& job) override {
    pb::ChangePlansRequest request;
    request.set_job(job);
    request.set_undo(true);
    pb::ChangePlansResponse response;
    return call(&pb::ClusterService::Stub::ChangePlans, request, response);
  }

  Status setDryRun(const std::string& job, bool dry_run) override {
    pb::ChangePlansRequest request;
    request.set_job(job);
    request.set_dry_run(dry_run);
    pb::ChangePlansResponse response;
    return call(&pb::ClusterService::Stub::ChangePlans, request, response);
  }

  Result<std::vector<sync::Exchange>> syncTime(int count) override {
    std::vector<sync::Exchange> burst;
    for (int i = 0; i < count; ++i) {
      pb::SyncTimeRequest request;
      pb::SyncTimeResponse response;
      request.set_t1(rawClock());
      TS_TRY(call(&pb::ClusterService::Stub::SyncTime, request, response));
      burst.push_back({request.t1(), response.t2(), response.t3(), rawClock()});
    }
    return burst;
  }

  Status fetchTo(const std::function<Status(std::string_view)>& sink, const std::string& name_or_id,
                 const std::vector<std::string>& nodes) override {
    pb::CollectTraceRequest request;
    request.set_session(name_or_id);
    for (const std::string& node : nodes) request.add_node_ids(node);
    return readChunks(&pb::ClusterService::Stub::CollectTrace, request,
                      [&](const pb::TraceChunk& chunk) { return sink(chunk.compressed_data()); });
  }

  Status outline(const std::string& name_or_id, const std::vector<std::string>& tables, OutlineSink& sink) override {
    pb::CollectTraceRequest request;
    request.set_session(name_or_id);
    request.set_outline(true);
    for (const std::string& table : tables) request.add_tables(table);
    std::vector<SegmentName> segments;
    uint64_t at = 0;
    auto take = [&](const pb::TraceChunk& chunk) -> Status {
      for (const pb::SegmentRef& s : chunk.segments()) segments.push_back({s.node(), s.epoch(), s.number()});
      std::string_view data = chunk.compressed_data();
      for (const pb::TraceGap& gap : chunk.gaps()) {
        if (gap.at() < at || gap.at() - at > data.size() || gap.segment() >= segments.size() ||
            gap.size() > trace::kMaxBlockBytes)
          return Status::corrupt("the master's answer makes no sense");
        TS_TRY(sink.bytes(data.substr(0, gap.at() - at)));
        data.remove_prefix(gap.at() - at);
        TS_TRY(sink.leftOut(segments[gap.segment()], gap.offset(), gap.size()));
        at = gap.at() + gap.size();
      }
      at += data.size();
      return sink.bytes(data);
    };
    return readChunks(&pb::ClusterService::Stub::CollectTrace, request, take);
  }

  Status readPieces(const std::vector<SegmentPiece>& pieces,
                    const std::function<Status(std::string_view)>& sink) override {
    pb::ReadPiecesRequest request;
    const SegmentName* last = nullptr;
    uint64_t expected = 0, got = 0;
    for (const SegmentPiece& piece : pieces) {
      if (!last || !(*last == piece.segment)) {
        pb::SegmentRef& ref = *request.add_segments();
        ref.set_node(piece.segment.node);
        ref.set_epoch(piece.segment.epoch);
        ref.set_number(piece.segment.number);
        last = &piece.segment;
      }
      pb::SegmentRange& range = *request.add_pieces();
      range.set_segment(static_cast<uint32_t>(request.segments_size() - 1));
      range.set_offset(piece.offset);
      range.set_size(piece.size);
      expected += piece.size;
    }
    TS_TRY(readChunks(&pb::ClusterService::Stub::ReadPieces, request, [&](const pb::TraceChunk& chunk) -> Status {
      got += chunk.compressed_data().size();
      if (got > expected) return Status::corrupt("the master sent more than was asked for");
      return sink(chunk.compressed_data());
    }));
    return got == expected ? Status() : Status::io("the master sent less than was asked for");
  }

  Status follow(const EventFilter& filter, const std::function<void()>& begun,
                const std::function<bool(const LiveEvent&)>& visit) override {
    grpc::ClientContext context;
    addToken(context, token_);
    pb::StreamEventsRequest request;
    for (const std::string& node : filter.nodes) request.add_node_ids(node);
    for (const int64_t rank : filter.ranks) request.add_ranks(rank);
    for (const std::string& type : filter.types) request.add_types(type);
    {
      std::lock_guard lock(mutex_);
      if (cancelled_) return {};
      streaming_ = &context;
    }
    auto reader = stub_->StreamEvents(&context, request);
    reader->WaitForInitialMetadata();
    if (begun) begun();
    pb::TraceEvent message;
    bool ended = false;
    while (!ended && reader->Read(&message)) ended = !visit(fromMessage(message));
    if (ended) context.TryCancel();
    const grpc::Status status = reader->Finish();
    std::lock_guard lock(mutex_);
    streaming_ = nullptr;
    if (ended || cancelled_) return {};
    return status.ok() ? Status::io("the master ended the stream of events") : fromGrpc(status, what_);
  }

  Status launch(const LaunchOptions& options, LaunchFollower& follower) override {
    grpc::ClientContext context;
    addToken(context, token_);
    auto stream = stub_->Launch(&context);
    {
      std::lock_guard lock(mutex_);
      if (cancelled_) context.TryCancel();
      streaming_ = &context;
    }
    pb::LaunchControl first;
    toMessage(options, *first.mutable_request());
    bool good = stream->Write(first);
    {
      std::lock_guard lock(mutex_);
      launched_ = stream.get();
      if (stop_launch_ && good) good = writeStop(*stream);
    }
    pb::LaunchEvent event;
    while (good && stream->Read(&event)) tell(event, follower);
    {
      std::lock_guard lock(mutex_);
      launched_ = nullptr;
      streaming_ = nullptr;
    }
    return fromGrpc(stream->Finish(), what_);
  }

  void stopLaunch() override {
    std::lock_guard lock(mutex_);
    stop_launch_ = true;
    if (launched_) writeStop(*launched_);
  }

  void cancel() override {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (streaming_) streaming_->TryCancel();
  }

 private:
  using LaunchCall = grpc::ClientReaderWriter<pb::LaunchControl, pb::LaunchEvent>;
  static bool writeStop(LaunchCall& call) {
    pb::LaunchControl stop;
    stop.set_stop(true);
    return call.Write(stop);
  }
  static void toMessage(const LaunchOptions& options, pb::LaunchRequest& request) {
    for (const std::string& word : options.command) request.add_command(word);
    for (const std::string& node : options.nodes) request.add_nodes(node);
    request.set_per_node(options.per_node);
    request.set_master_port(options.master_port);
    request.set_master_addr(options.master_addr);
    for (const std::string& variable : options.environment) request.add_environment(variable);
    request.set_folder(options.folder);
    request.set_grace_s(options.grace_s);
    request.set_mode(options.mode);
    request.set_tensor(options.tensor);
    request.set_data(options.data);
    request.set_pipeline(options.pipeline);
  }
  static void tell(const pb::LaunchEvent& event, LaunchFollower& follower) {
    if (event.has_started()) {
      std::vector<LaunchedRank> ranks;
      for (const pb::RankInfo& rank : event.started().ranks()) ranks.push_back(fromMessage(rank));
      follower.started(ranks);
    } else if (event.has_output()) {
      follower.output(event.output().rank(), event.output().error(), event.output().data());
    } else if (event.has_ended()) {
      follower.ended(fromMessage(event.ended()));
    }
  }

  /// A call that answers with a trace, or pieces of it.
  template <typename Method, typename Request>
  Status readChunks(Method method, const Request& request, const std::function<Status(const pb::TraceChunk&)>& take) {
    grpc::ClientContext context;
    addToken(context, token_);
    {
      std::lock_guard lock(mutex_);
      if (cancelled_) return Status::io("the fetch was cancelled");
      streaming_ = &context;
    }
    std::unique_ptr<grpc::ClientReader<pb::TraceChunk>> reader = (stub_.get()->*method)(&context, request);
    pb::TraceChunk chunk;
    bool last = false;
    Status taken;
    while (taken && reader->Read(&chunk)) {
      taken = take(chunk);
      last = chunk.is_last();
    }
    if (!taken) context.TryCancel();
    const grpc::Status status = reader->Finish();
    {
      std::lock_guard lock(mutex_);
      streaming_ = nullptr;
    }
    TS_TRY(taken);
    TS_TRY(fromGrpc(status, what_));
    if (!last) return Status::io("the master closed the connection in the middle of the trace");
    return {};
  }

  template <typename Method, typename Request, typename Response>
  Status call(Method method, const Request& request, Response& response, int longer_s = 0) {
    grpc::ClientContext context;
    setDeadline(context, kSeconds + longer_s);
    addToken(context, token_);
    return fromGrpc((stub_.get()->*method)(&context, request, &response), what_);
  }

  std::mutex mutex_;  // guards what follows
  grpc::ClientContext* streaming_ = nullptr;
  LaunchCall* launched_ = nullptr;
  bool cancelled_ = false, stop_launch_ = false;
  // set once
  std::string what_, token_;
  std::unique_ptr<pb::ClusterService::Stub> stub_;
};

}  // namespace

Result<std::unique_ptr<Client>> connectClient(const ClientOptions& options) {
  auto client = std::make_unique<RpcClient>();
  TS_TRY(client->open(options));
  return std::unique_ptr<Client>(std::move(client));
}

}  // namespace tracesmith::cluster
