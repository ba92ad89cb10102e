// The streams of launched jobs: that of the client, and one of each agent that runs ranks.
#include "access/names.hpp"
#include "base/count.hpp"
#include "cluster/master/service_streams.hpp"
#include "cluster/master/stream.hpp"

namespace tracesmith::cluster {
namespace {

constexpr size_t kLongestAudit = 1024;

/// What outlives a stream: others wake it, or find it gone.
template <typename Reactor>
class Handle {
 public:
  explicit Handle(Reactor* reactor) : reactor_(reactor) {}
  template <typename F>
  void with(F f) {
    std::lock_guard lock(mutex_);
    if (reactor_) f(*reactor_);
  }
  void forget() {
    std::lock_guard lock(mutex_);
    reactor_ = nullptr;
  }

 private:
  std::mutex mutex_;  // guards reactor_
  Reactor* reactor_;
};

/// The client that started a job, for as long as it follows it.
class ClientReactor final : public Stream<LaunchStream, pb::LaunchEvent> {
 public:
  using Audit = std::function<void(const std::string& what, const Status& outcome)>;
  ClientReactor(Master& master, Audit audit) : master_(master), audit_(std::move(audit)) {}

  void start() { StartRead(&incoming_); }
  void wake() {
    std::lock_guard lock(mutex_);
    pump();
  }
  void OnReadDone(bool ok) override {
    std::shared_ptr<Launch> running;
    {
      std::lock_guard lock(mutex_);
      running = launch_;
    }
    if (!ok) {
      if (running)
        running->stop();
      else
        finish(toGrpc(Status::invalid("no job was sent")));
      return;
    }
    if (incoming_.has_request() && !running) {
      if (const Status begun = begin(incoming_.request()); !begun) return finish(toGrpc(begun));
    } else if (incoming_.stop() && running) {
      running->stop();
    }
    StartRead(&incoming_);
  }
  void OnDone() override {
    if (handle_) handle_->forget();
    if (launch_) launch_->abandon();
    settle();
    delete this;
  }

 private:
  Status begin(const pb::LaunchRequest& request) {
    std::string what;
    for (const std::string& word : request.command()) what += " " + word;
    Result<LaunchPlan> plan = master_.planLaunch(request);
    std::string where = counted(plan ? plan->worldSize() : 0, "rank") + " on";
    if (plan)
      for (const auto& [node, ranks] : plan->nodes) where += " " + node;
    audit_(((plan ? where + ":" : "") + what).substr(0, kLongestAudit), plan.status());
    if (!plan) return plan.status();
    handle_ = std::make_shared<Handle<ClientReactor>>(this);
    std::shared_ptr<Launch> launch =
        master_.launch(std::move(*plan), [handle = handle_] { handle->with([](ClientReactor& r) { r.wake(); }); });
    std::lock_guard lock(mutex_);
    launch_ = std::move(launch);
    pump();
    return {};
  }
  bool next(pb::LaunchEvent& event) override { return launch_ && launch_->nextEvent(event); }
  bool complete() override { return launch_ && launch_->told(); }

  Master& master_;
  const Audit audit_;
  std::shared_ptr<Handle<ClientReactor>> handle_;  // shared with the launch
  pb::LaunchControl incoming_;
  std::shared_ptr<Launch> launch_;  // shared with the agents' streams; under mutex_
};

/// One agent that runs ranks of a job.
class AgentReactor final : public Stream<RanksStream, pb::RankOrder> {
 public:
  AgentReactor(Master& master, std::string node) : master_(master), node_(std::move(node)) {}

  void start() { StartRead(&incoming_); }
  void wake() {
    std::lock_guard lock(mutex_);
    pump();
  }
  void resume() { StartRead(&incoming_); }

  void OnReadDone(bool ok) override {
    if (!ok) return finish(grpc::Status::OK);
    if (!launch_) {
      if (const Status attached = attach(incoming_.launch()); !attached) return finish(toGrpc(attached));
    } else if (!launch_->take(node_, std::move(incoming_))) {
      return;  // resume() goes on
    }
    StartRead(&incoming_);
  }
  void OnDone() override {
    if (handle_) handle_->forget();
    if (launch_) launch_->left(node_);
    settle();
    delete this;
  }

 private:
  Status attach(const std::string& id) {
    const std::shared_ptr<Launch> launch = master_.launches().find(id);
    if (!launch) return Status::notFound("there is no such job");
    handle_ = std::make_shared<Handle<AgentReactor>>(this);
    TS_TRY(launch->attach(
        node_, [handle = handle_] { handle->with([](AgentReactor& r) { r.wake(); }); },
        [handle = handle_] { handle->with([](AgentReactor& r) { r.resume(); }); }));
    std::lock_guard lock(mutex_);
    launch_ = launch;
    pump();
    return {};
  }
  bool next(pb::RankOrder& order) override { return launch_ && launch_->nextOrder(node_, order); }

  Master& master_;
  const std::string node_;
  std::shared_ptr<Handle<AgentReactor>> handle_;  // shared with the launch
  pb::RankEvent incoming_;
  std::shared_ptr<Launch> launch_;  // shared with the client's stream; set once, under mutex_
};

}  // namespace

LaunchStream* serveLaunch(Master& master, std::function<void(const std::string& what, const Status& outcome)> audit,
                          const grpc::Status& refusal) {
  auto* reactor = new ClientReactor(master, std::move(audit));
  if (refusal.ok())
    reactor->start();
  else
    reactor->finish(refusal);
  return reactor;
}

RanksStream* serveRanks(Master& master, const std::string& node, const grpc::Status& refusal) {
  auto* reactor = new AgentReactor(master, node);
  if (refusal.ok())
    reactor->start();
  else
    reactor->finish(refusal);
  return reactor;
}

}  // namespace tracesmith::cluster
