#include "cluster/agent/agent_link.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "access/guard.hpp"
#include "access/owner.hpp"
#include "base/clock.hpp"
#include "cluster/agent/node_hardware.hpp"
#include "cluster/rpc/rpc.hpp"
#include "cluster/wire/convert.hpp"
#include "cluster/wire/live_convert.hpp"

namespace tracesmith::cluster {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

constexpr size_t kPieceBytes = 512u << 10;
constexpr uint64_t kMostInFlight = 8u << 20;
constexpr auto kLeastPause = 100ms, kMostPause = 5000ms;
constexpr auto kDiscovery = 1s;        // what finding the GPUs takes, usually much less
constexpr auto kSilence = 30s;         // a master that says nothing for so long is not there
constexpr auto kRefusedPause = 500ms;  // before a piece is offered again that the master had no room for

/// How many bytes may go now, if no more than so many may go in a second.
class Allowance {
 public:
  explicit Allowance(uint64_t rate) : rate_(static_cast<double>(rate)), left_(rate_ * kBurstS) {}
  bool empty() {
    if (rate_ == 0) return false;
    const Clock::time_point now = Clock::now();
    left_ = std::min(rate_ * kBurstS, left_ + rate_ * std::chrono::duration<double>(now - then_).count());
    then_ = now;
    return left_ <= 0;
  }
  void take(uint64_t bytes) { left_ -= static_cast<double>(bytes); }

 private:
  static constexpr double kBurstS = 0.1;
  const double rate_;
  double left_;
  Clock::time_point then_ = Clock::now();
};

}  // namespace

Status checkMaster(const access::Address& master, const std::string& token, const access::SecurityOptions& security) {
  if (!token.empty() || !security.tls_ca.empty() || !access::isLoopback(master.host)) return {};
  const std::optional<uid_t> stranger = access::strangerAt(master.host, master.port);
  if (!stranger) return {};
  return Status::unauthenticated("the server at " + master.text() + " belongs to user " + std::to_string(*stranger) +
                                 ", not to this agent's user or root: it is not trusted without --token-file");
}

/// One connection, as long as it lasts.
struct MasterLink::Call {
  grpc::ClientContext context;
  std::atomic<bool> ended{false};
  std::atomic<int64_t> heard{0};       // steady clock, ns
  std::atomic<int64_t> not_before{0};  // steady clock, ns: the master had no room
};

MasterLink::MasterLink(Options options, Outward& outward, Spool& spool, Recorder& recorder, ClockKeeper& clock,
                       LiveReporter& live, ProcessLook& processes, PlanCarrier& plans, RankHost& ranks)
    : o_(std::move(options)),
      outward_(outward),
      spool_(spool),
      recorder_(recorder),
      clock_(clock),
      live_(live),
      processes_(processes),
      plans_(plans),
      ranks_(ranks) {
  thread_ = std::thread([this] { loop(); });
}

MasterLink::~MasterLink() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    if (call_) call_->context.TryCancel();
  }
  changed_.notify_all();
  spool_.wake();
  thread_.join();
}

void MasterLink::dial(const std::string& address) {
  std::lock_guard lock(mutex_);
  if (address == address_) return;
  address_ = address;
  if (call_) call_->context.TryCancel();
  changed_.notify_all();
}

void MasterLink::setHardware(model::NodeDescription hardware) {
  std::lock_guard lock(mutex_);
  hardware_ = std::move(hardware);
  hardware_known_ = true;
  if (call_) call_->context.TryCancel();  // it registers again, with them
  changed_.notify_all();
}

/// What this side knows of the node's state.
NodeStatus MasterLink::state() const {
  NodeStatus s;
  s.node = o_.info.node;
  s.clock = clock_.now().status();
  const RecorderStats stats = recorder_.stats();
  s.processes = stats.processes;
  s.captures = stats.captures;
  s.records = stats.records;
  s.losses = stats.losses;
  s.problem = stats.problem.empty() ? clock_.problem() : stats.problem;
  s.spool_bytes = spool_.unacknowledged();
  s.sent_bytes = sent_bytes_;
  return s;
}

std::string MasterLink::problem() const {
  std::lock_guard lock(mutex_);
  return problem_;
}

void MasterLink::loop() {
  auto pause = kLeastPause;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kDiscovery, [&] { return stop_ || hardware_known_; });  // else the node registers twice
  while (!stop_) {
    const std::string address = address_;
    if (address.empty()) {
      changed_.wait(lock, [&] { return stop_ || !address_.empty(); });
      continue;
    }
    lock.unlock();
    const auto began = Clock::now();
    const Status status = talk(address);
    lock.lock();
    // Once for each reason: a master that is away for a day is one line.
    if (!status && status.message() != problem_) std::fprintf(stderr, "tracesmith: %s\n", status.message().c_str());
    problem_ = status.message();
    // Growing pauses, so that a master that comes back is not met by everybody at once; none after a good connection.
    pause = Clock::now() - began > 10s ? kLeastPause : std::min(kMostPause, pause * 2);
    changed_.wait_for(lock, pause, [&] { return stop_ || address_ != address; });
    if (address_ != address) pause = kLeastPause;
  }
}

Status MasterLink::talk(const std::string& address) {
  const std::string what = "cannot reach the master at " + address;
  Result<std::string> token = access::readToken(o_.security.token_file);
  if (!token) return token.status();
  Result<access::Address> host = access::parseAddress(address, kMasterPort);
  if (!host) return host.status();
  TS_TRY(checkMaster(*host, *token, o_.security));
  Result<std::shared_ptr<grpc::Channel>> channel = outward_.open(address, o_.security);
  if (!channel) return channel.status();
  auto stub = pb::ClusterService::NewStub(*channel);
  pb::RegisterNodeRequest request;
  NodeRegistration info = o_.info;
  {
    std::lock_guard lock(mutex_);
    copyHardware(hardware_, info);
  }
  toMessage(info, request);
  request.set_port(o_.agent_port);
  const auto [reference, reference_ns] = clock_.reference();
  request.set_reference_id(reference);
  request.set_reference_now_ns(reference_ns);
  pb::RegisterNodeResponse answer;
  {
    grpc::ClientContext context;
    setDeadline(context, 5);
    addToken(context, *token);
    TS_TRY(fromGrpc(stub->RegisterNode(&context, request, &answer), what));
  }
  if (!answer.success()) return Status::invalid(answer.message());
  TS_TRY(checkMaster(*host, *token, o_.security));  // who was there before may have gone: now there is a connection
  clock_.relateTo(answer.reference_id().substr(0, 64));
  auto exchangeOverCalls = [&] {
    std::vector<sync::Exchange> burst;
    for (int i = 0; i < 8; ++i) {
      grpc::ClientContext context;
      setDeadline(context, 2);
      addToken(context, *token);
      pb::SyncTimeRequest ask;
      pb::SyncTimeResponse reply;
      ask.set_t1(rawClock());
      const grpc::Status status = stub->SyncTime(&context, ask, &reply);
      if (!status.ok()) break;
      burst.push_back({ask.t1(), reply.t2(), reply.t3(), rawClock()});
    }
    clock_.add(burst);
  };
  const bool datagrams = answer.sync_port() != 0 && clock_.follow(host->host, static_cast<uint16_t>(answer.sync_port()),
                                                                  answer.sync_key(), outward_.interface());
  if (!datagrams) exchangeOverCalls();

  Call call;
  addToken(call.context, *token);
  call.context.AddMetadata(kNodeKey, o_.info.node);
  auto steady = [] { return Clock::now().time_since_epoch().count(); };
  call.heard = steady();
  {
    std::lock_guard lock(mutex_);
    if (stop_ || address_ != address) return {};
    call_ = &call;
  }
  auto stream = stub->Link(&call.context);
  spool_.rewind();
  plans_.rewind();
  connected_ = true;
  std::fprintf(stderr, "tracesmith: connected to the master at %s as node %s\n", address.c_str(), o_.info.node.c_str());
  AnswerDesk desk(processes_, [&](uint64_t id, const NodeProcesses& found) {
    grpc::ClientContext context;  // a call of its own: what is recorded does not wait behind a large answer
    setDeadline(context, 10);
    addToken(context, *token);
    context.AddMetadata(kNodeKey, o_.info.node);
    pb::AnswerRequest reply;
    pb::AnswerResponse taken;
    reply.set_id(id);
    toMessage(found, *reply.mutable_processes());
    sent_bytes_ += reply.ByteSizeLong();
    (void)stub->Answer(&context, reply, &taken);  // who asked is told that no answer came
  });
  const auto write = [&](const pb::AgentMessage& message) {
    sent_bytes_ += message.ByteSizeLong();
    return stream->Write(message);
  };
  std::thread reader([&] {
    pb::MasterMessage message;
    while (stream->Read(&message)) {
      call.heard = steady();
      if (message.has_captures()) {
        std::vector<CaptureSpan> captures;
        for (const pb::Capture& c : message.captures().captures()) captures.push_back(fromMessage(c));
        recorder_.setCaptures(std::move(captures));
      } else if (message.has_ack()) {
        const pb::SpoolAck& ack = message.ack();
        if (!ack.problem().empty()) call.not_before = steady() + std::chrono::nanoseconds(kRefusedPause).count();
        spool_.acknowledge(ack.epoch(), ack.segment(), ack.size(), ack.expected());
      } else if (message.has_question()) {
        desk.put(message.question().id(), fromMessage(message.question().processes()));
      } else if (message.has_plan()) {
        plans_.put(fromMessage(message.plan()));
      } else if (message.has_launch()) {
        ranks_.offer(address, message.launch().id());
      }
    }
    call.ended = true;
    spool_.wake();
  });
  const auto period = std::chrono::milliseconds(std::clamp<uint32_t>(answer.heartbeat_interval_ms(), 50, 60000));
  auto next_heartbeat = Clock::now();
  model::SpoolMark told;  // of what the spool has let go
  Status status;
  Allowance allowance(o_.max_rate);
  // Small pieces where little may go, so that it goes evenly and heartbeats do not wait behind it.
  const size_t piece_bytes = o_.max_rate == 0 ? kPieceBytes : std::clamp<size_t>(o_.max_rate / 10, 4096, kPieceBytes);
  while (!stop_ && !call.ended) {
    if (Clock::now() >= next_heartbeat) {
      if (!datagrams) exchangeOverCalls();
      pb::AgentMessage message;
      toMessage(state(), *message.mutable_heartbeat()->mutable_state());
      if (!write(message)) break;
      next_heartbeat = Clock::now() + period;
    }
    if (std::optional<analysis::live::NodeReport> report = live_.take()) {
      pb::AgentMessage message;
      toMessage(*report, *message.mutable_live());
      if (!write(message)) break;
    }
    bool written = true;
    for (const JobNews& news : plans_.take()) {
      pb::AgentMessage message;
      toMessage(news, *message.mutable_balance());
      if (written) written = write(message);
    }
    if (!written) break;
    if (Clock::now().time_since_epoch() - std::chrono::nanoseconds(call.heard) > kSilence) {
      call.context.TryCancel();
      status = Status::io("the master at " + address + " has gone silent");
      break;
    }
    if (const model::SpoolMark removed = spool_.removed(); removed != told) {
      pb::AgentMessage message;
      toMessage(removed, *message.mutable_removed());
      if (!write(message)) break;
      told = removed;
    }
    bool sent = false;
    if (!allowance.empty() && spool_.inFlight() < kMostInFlight && steady() >= call.not_before) {
      Spool::Piece piece;
      Result<bool> more = spool_.next(piece_bytes, piece);
      if (!more) {
        status = more.status();
        break;
      }
      if (*more) {
        pb::AgentMessage message;
        pb::SpoolChunk& chunk = *message.mutable_chunk();
        chunk.set_epoch(piece.epoch);
        chunk.set_segment(piece.segment);
        chunk.set_offset(piece.offset);
        allowance.take(piece.data.size());
        chunk.set_data(std::move(piece.data));
        if (!write(message)) break;
        sent = true;
      }
    }
    if (!sent) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_heartbeat - Clock::now()).count();
      if (allowance.empty())
        std::this_thread::sleep_for(10ms);  // there is something to send, but not yet
      else
        spool_.wait(static_cast<int>(std::clamp<int64_t>(left + 1, 1, 100)));
    }
  }
  connected_ = false;
  if (stop_ || !status) call.context.TryCancel();  // else the master ended it, and says why
  reader.join();
  const grpc::Status ended = stream->Finish();
  {
    std::lock_guard lock(mutex_);
    call_ = nullptr;
  }
  if (!status || stop_) return status;
  return fromGrpc(ended, what);
}

}  // namespace tracesmith::cluster
