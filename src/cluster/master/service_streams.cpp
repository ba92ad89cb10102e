#include "cluster/master/service_streams.hpp"

#include <deque>
#include <map>
#include <mutex>

#include "cluster/master/stream.hpp"
#include "cluster/wire/convert.hpp"
#include "cluster/wire/live_convert.hpp"

namespace tracesmith::cluster {
namespace {

/// One agent's connection: reads pieces and heartbeats, writes acknowledgements and captures.
class LinkReactor final : public Stream<LinkStream, pb::MasterMessage> {
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
    void sendQuestion(uint64_t id, const ProcessQuery& query) override {
      std::lock_guard lock(mutex_);
      if (reactor_) reactor_->putQuestion(id, query);
    }
    void sendPlan(const PlanOrder& order) override {
      std::lock_guard lock(mutex_);
      if (reactor_) reactor_->putPlan(order);
    }
    void sendLaunch(const std::string& id) override {
      std::lock_guard lock(mutex_);
      if (reactor_) reactor_->putLaunch(id);
    }
    void end() override {
      std::lock_guard lock(mutex_);
      if (reactor_) reactor_->finish({grpc::StatusCode::ABORTED, "replaced by another connection from this node"});
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

  void OnReadDone(bool ok) override {
    if (!ok) return finish(grpc::Status::OK);
    Status status;
    if (incoming_.has_heartbeat()) {
      NodeStatus heartbeat = fromMessage(incoming_.heartbeat().state());
      heartbeat.node = node_;
      master_.heartbeat(heartbeat);
      putCaptures(master_.captures());
    } else if (incoming_.has_chunk()) {
      const pb::SpoolChunk& chunk = incoming_.chunk();
      status = master_.take(node_, chunk.epoch(), chunk.segment(), chunk.offset(), chunk.data());
    } else if (incoming_.has_removed()) {
      master_.agentRemoved(node_, fromMessage(incoming_.removed()));
    } else if (incoming_.has_live()) {
      master_.watch().take(node_, takeReport(incoming_.live()));
    } else if (incoming_.has_balance()) {
      master_.balance().take(node_, fromMessage(incoming_.balance()));
    }
    if (!status) return finish(toGrpc(status));
    StartRead(&incoming_);
  }

  void OnDone() override {
    if (handle_) {
      handle_->forget();
      master_.unlink(node_, handle_.get());
    }
    settle();
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

  void putQuestion(uint64_t id, const ProcessQuery& query) {
    std::lock_guard lock(mutex_);
    pb::Question& question = questions_.emplace_back();
    question.set_id(id);
    toMessage(query, *question.mutable_processes());
    pump();
  }

  void putPlan(const PlanOrder& order) {
    std::lock_guard lock(mutex_);
    pb::BalanceOrder message;
    toMessage(order, message);
    plans_[order.job] = std::move(message);  // the last says it all
    pump();
  }

  void putLaunch(const std::string& id) {
    std::lock_guard lock(mutex_);
    launches_.push_back(id);
    pump();
  }

  bool next(pb::MasterMessage& message) override {
    if (captures_pending_) {
      message = captures_;
      captures_pending_ = false;
    } else if (!acks_.empty()) {
      *message.mutable_ack() = std::move(acks_.front());
      acks_.pop_front();
    } else if (!questions_.empty()) {
      *message.mutable_question() = std::move(questions_.front());
      questions_.pop_front();
    } else if (!plans_.empty()) {
      *message.mutable_plan() = std::move(plans_.begin()->second);
      plans_.erase(plans_.begin());
    } else if (!launches_.empty()) {
      message.mutable_launch()->set_id(launches_.front());
      launches_.pop_front();
    } else {
      return false;
    }
    return true;
  }

  Master& master_;
  const std::string node_;
  std::shared_ptr<Handle> handle_;  // shared with the master
  pb::AgentMessage incoming_;

  // under mutex_
  pb::MasterMessage captures_;
  std::deque<pb::SpoolAck> acks_;
  std::deque<pb::Question> questions_;
  std::map<std::string, pb::BalanceOrder> plans_;  // by job
  std::deque<std::string> launches_;               // ids
  bool captures_pending_ = false;
};

/// One client that follows events.
class EventReactor final : public Stream<EventsStream, pb::TraceEvent> {
 public:
  explicit EventReactor(EventStream& stream) : stream_(stream) {}

  void start(const pb::StreamEventsRequest& request) {
    EventFilter filter;
    filter.nodes.assign(request.node_ids().begin(), request.node_ids().end());
    filter.ranks.assign(request.ranks().begin(), request.ranks().end());
    filter.types.assign(request.types().begin(), request.types().end());
    Result<std::shared_ptr<Subscription>> subscription = stream_.subscribe(filter, [this] { wake(); });
    if (!subscription) return finish(toGrpc(subscription.status()));
    StartSendInitialMetadata();  // the client knows: from now on nothing is missed
    std::lock_guard lock(mutex_);
    subscription_ = *subscription;
    pump();
  }
  void OnDone() override {
    if (subscription_) stream_.unsubscribe(subscription_);
    settle();
    delete this;
  }

 private:
  void wake() {
    std::lock_guard lock(mutex_);
    pump();
  }
  bool next(pb::TraceEvent& message) override {
    LiveEvent event;
    if (!subscription_ || !subscription_->take(event)) return false;
    toMessage(event, message);
    return true;
  }

  EventStream& stream_;
  std::shared_ptr<Subscription> subscription_;  // shared with the stream; under mutex_
};

}  // namespace

LinkStream* serveLink(Master& master, const std::string& node, const grpc::Status& refusal) {
  auto* reactor = new LinkReactor(master, node);
  if (refusal.ok())
    reactor->start();
  else
    reactor->finish(refusal);
  return reactor;
}

EventsStream* serveEvents(EventStream& events, const pb::StreamEventsRequest& request, const grpc::Status& refusal) {
  auto* reactor = new EventReactor(events);
  if (refusal.ok())
    reactor->start(request);
  else
    reactor->finish(refusal);
  return reactor;
}

}  // namespace tracesmith::cluster
