#include "cluster/agent/rank_host.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <optional>

#include "base/count.hpp"
#include "capture/collect/job_environment.hpp"
#include "cluster/agent/agent_link.hpp"
#include "cluster/agent/rank_process.hpp"
#include "cluster/rpc/rpc.hpp"
#include "cluster/wire/convert.hpp"

namespace tracesmith::cluster {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

constexpr size_t kMostLaunches = 16;
constexpr size_t kReadBytes = 64u << 10;
constexpr auto kLastOutput = 1s;  // what others may hold the pipes of a rank open for after its end

/// One rank that was started.
struct Running {
  LaunchedRank place;
  std::unique_ptr<RankProcess> process;
  bool out_open = true, err_open = true, terminated = false, told = false;
  std::optional<RankProcess::End> end;
  Clock::time_point ended_at{};
};

RankEnd endOf(const Running& r) {
  RankEnd end;
  end.rank = r.place.rank;
  end.node = r.place.node;
  end.terminated = r.terminated;
  if (r.end->error == ECHILD)
    end.problem = "it was killed with the process that watched it";
  else if (r.end->error != 0)
    end.problem = std::string("it could not be started: ") + std::strerror(r.end->error);
  else if (WIFSIGNALED(r.end->status))
    end.signal = static_cast<uint32_t>(WTERMSIG(r.end->status));
  else
    end.code = static_cast<uint32_t>(WEXITSTATUS(r.end->status));
  return end;
}

/// What a rank's environment has besides that of the agent.
capture::Environment environmentOf(const pb::RankStart& start, const LaunchedRank& place,
                                   const std::string& ring_folder) {
  capture::Environment e = capture::ownEnvironment();
  for (const std::string& variable : start.request().environment())
    if (const size_t equals = variable.find('='); equals != std::string::npos)
      e[variable.substr(0, equals)] = variable.substr(equals + 1);
  e["RANK"] = std::to_string(place.rank);
  e["LOCAL_RANK"] = std::to_string(place.local_rank);
  e["WORLD_SIZE"] = std::to_string(start.world_size());
  e["LOCAL_WORLD_SIZE"] = std::to_string(start.ranks_size());
  e["NODE_RANK"] = e["GROUP_RANK"] = std::to_string(start.node_rank());
  e["MASTER_ADDR"] = start.master_addr();
  e["MASTER_PORT"] = std::to_string(start.request().master_port());
  if (!start.visible_gpus().empty()) {
    e["CUDA_VISIBLE_DEVICES"] = start.visible_gpus();
    e["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";  // as the driver's tools and TraceSmith number them
  }
  if (start.request().mode().empty()) return e;
  for (const std::string& note : capture::addProbe({ring_folder, start.request().mode(), true}, e))
    std::fprintf(stderr, "tracesmith: rank %u: %s\n", place.rank, note.c_str());
  e["TRACESMITH_READER"] = "0";  // the agent, which may come and go
  return e;
}

}  // namespace

/// One launch while it lasts.
struct RankHost::Call {
  std::string master, id;
  std::atomic<bool> stop{false}, broken{false}, finished{false};
  int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  grpc::ClientContext context;
  std::thread thread;

  void nudge() const {
    const uint64_t one = 1;
    (void)!::write(wake, &one, sizeof one);
  }
  ~Call() {
    if (thread.joinable()) thread.join();
    ::close(wake);
  }
};

namespace {

using RankStream = grpc::ClientReaderWriter<pb::RankEvent, pb::RankOrder>;

/// Runs ranks until all have ended. Output that nobody takes any more is dropped.
class RankRun {
 public:
  RankRun(RankStream& stream, std::atomic<bool>& broken) : stream_(stream), broken_(broken) {}

  void add(LaunchedRank place, const RankProcess::Start& start) {
    Running& r = ranks_.emplace_back();
    r.place = std::move(place);
    Result<std::unique_ptr<RankProcess>> process = RankProcess::start(start);
    if (process) {
      r.process = std::move(*process);
      return;
    }
    r.told = true;
    RankEnd end;
    end.rank = r.place.rank;
    end.node = r.place.node;
    end.problem = process.status().message();
    tell(end);
  }
  void terminate() {
    for (Running& r : ranks_)
      if (!r.told && !r.end && !r.terminated) {
        r.terminated = true;
        r.process->terminate();
      }
  }
  bool ended() const {
    for (const Running& r : ranks_)
      if (!r.told) return false;
    return true;
  }
  /// Waits until a rank prints or ends, or `wake` is written to.
  void turn(int wake) {
    std::vector<pollfd> files = {{wake, POLLIN, 0}};
    int wait_ms = -1;
    for (const Running& r : ranks_) {
      if (r.told) continue;
      files.push_back({r.out_open ? r.process->out() : -1, POLLIN, 0});
      files.push_back({r.err_open ? r.process->err() : -1, POLLIN, 0});
      files.push_back({r.end ? -1 : r.process->endFile(), POLLIN, 0});
      if (r.end) wait_ms = 50;
    }
    ::poll(files.data(), files.size(), wait_ms);
    uint64_t nudges;
    (void)!::read(wake, &nudges, sizeof nudges);
    for (Running& r : ranks_)
      if (!r.told) look(r);
  }

 private:
  void look(Running& r) {
    RankProcess::End end;
    if (!r.end && r.process->takeEnd(end)) {
      r.end = end;
      r.ended_at = Clock::now();
    }
    pass(r, r.out_open, r.process->out(), false);
    pass(r, r.err_open, r.process->err(), true);
    if (!r.end || ((r.out_open || r.err_open) && Clock::now() - r.ended_at < kLastOutput)) return;
    r.told = true;
    tell(endOf(r));
    r.process.reset();
  }
  /// One piece at a time, so that all ranks have their turn.
  void pass(const Running& r, bool& open, int file, bool error) {
    if (!open) return;
    const ssize_t n = ::read(file, buffer_, sizeof buffer_);
    if (n == 0) open = false;
    if (n <= 0 || broken_) return;
    pb::RankEvent event;
    event.mutable_output()->set_rank(r.place.rank);
    event.mutable_output()->set_error(error);
    event.mutable_output()->set_data(buffer_, static_cast<size_t>(n));
    write(event);
  }
  void tell(const RankEnd& end) {
    pb::RankEvent event;
    toMessage(end, *event.mutable_ended());
    write(event);
  }
  void write(const pb::RankEvent& event) {
    if (!broken_ && !stream_.Write(event)) broken_ = true;
  }

  RankStream& stream_;
  std::atomic<bool>& broken_;
  std::vector<Running> ranks_;
  char buffer_[kReadBytes];
};

}  // namespace

RankHost::RankHost(Options options) : options_(std::move(options)) {}

RankHost::~RankHost() {
  std::list<std::unique_ptr<Call>> calls;
  {
    std::lock_guard lock(mutex_);
    calls.swap(calls_);
  }
  for (const auto& call : calls) {
    call->broken = true;
    call->context.TryCancel();
    call->nudge();
  }
}

void RankHost::offer(const std::string& master, const std::string& id) {
  std::lock_guard lock(mutex_);
  std::erase_if(calls_, [](const auto& call) { return call->finished.load(); });
  if (calls_.size() >= kMostLaunches) return;  // the master tells that this node did not start its ranks
  Call& call = *calls_.emplace_back(std::make_unique<Call>());
  call.master = master;
  call.id = id;
  call.thread = std::thread([this, &call] {
    run(call);
    call.finished = true;
  });
}

void RankHost::run(Call& call) {
  Result<std::string> token = access::readToken(options_.security.token_file);
  Result<access::Address> master = access::parseAddress(call.master, kMasterPort);
  // A connection of its own: what the ranks print does not stand in the way of what is recorded.
  Result<std::shared_ptr<grpc::Channel>> channel = options_.outward->open(call.master, options_.security);
  if (!token || !master || !channel) return;
  auto stub = pb::ClusterService::NewStub(*channel);
  addToken(call.context, *token);
  call.context.AddMetadata(kNodeKey, options_.node);
  auto stream = stub->RunRanks(&call.context);
  pb::RankEvent hello;
  hello.set_launch(call.id);
  pb::RankOrder order;
  if (!stream->Write(hello) || !stream->Read(&order) || !order.has_start()) {
    call.context.TryCancel();
    (void)stream->Finish();
    return;
  }
  const pb::RankStart& start = order.start();
  Status allowed = options_.allowed ? checkMaster(*master, *token, options_.security)
                                    : Status::forbidden("its agent does not start jobs: start it with --allow-launch");
  if (allowed && start.request().command().empty()) allowed = Status::invalid("there is no command");
  std::string what = counted(static_cast<uint64_t>(start.ranks_size()), "rank") + ":";
  for (const std::string& word : start.request().command()) what += " " + word;
  options_.audit(what.substr(0, 1024), allowed);
  RankRun run(*stream, call.broken);
  for (const pb::RankInfo& info : start.ranks()) {
    LaunchedRank place = fromMessage(info);
    place.node = options_.node;
    if (!allowed) {
      pb::RankEvent refused;
      RankEnd end;
      end.rank = place.rank;
      end.node = place.node;
      end.problem = allowed.message();
      toMessage(end, *refused.mutable_ended());
      stream->Write(refused);
      continue;
    }
    RankProcess::Start process;
    process.command.assign(start.request().command().begin(), start.request().command().end());
    process.environment = environmentOf(start, place, options_.ring_folder);
    process.folder = start.request().folder();
    process.grace_s = start.request().grace_s();
    run.add(std::move(place), process);
  }
  std::atomic<bool> ended{false};
  std::thread reader([&] {
    pb::RankOrder next;
    while (stream->Read(&next))
      if (next.has_stop()) {
        call.stop = true;
        call.nudge();
      }
    if (!ended) call.broken = true;
    call.nudge();
  });
  while (!run.ended()) {
    if (call.stop || call.broken) run.terminate();
    run.turn(call.wake);
  }
  ended = true;
  stream->WritesDone();
  reader.join();
  (void)stream->Finish();
}

}  // namespace tracesmith::cluster
