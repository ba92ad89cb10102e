#include "cluster/agent/agent.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "access/guard.hpp"
#include "base/clock.hpp"
#include "capture/ring/reader.hpp"
#include "cluster/agent/agent_link.hpp"
#include "cluster/agent/hardware_source.hpp"
#include "cluster/agent/node_hardware.hpp"
#include "cluster/agent/sim_source.hpp"
#include "cluster/rpc/rpc.hpp"
#include "cluster/wire/convert.hpp"
#include "cluster/wire/merge.hpp"

namespace tracesmith::cluster {
namespace {

namespace fs = std::filesystem;

/// A word kept in a file: the same after every start.
Result<std::string> keptWord(const std::string& path, const std::string& fresh) {
  std::ifstream in(path);
  std::string word;
  if (in >> word) return word;
  Result<OutputFile> out = OutputFile::create(path);
  if (!out) return out.status();
  TS_TRY(out->write(fresh + "\n"));
  TS_TRY(out->commitDurably());
  return fresh;
}

/// Who an agent is: random, in a file of its folder that also says of which machine and which file it is. A folder that
/// was copied belongs to another agent, which is `copied`.
Result<std::string> identity(const std::string& path, bool& copied) {
  auto place = [](int fd) {
    struct stat st {};
    ::fstat(fd, &st);
    const std::string machine = access::machineId();
    return (machine.empty() ? "-" : machine) + " " + std::to_string(st.st_ino);
  };
  std::ifstream in(path);
  std::string id, machine, file, here;
  copied = false;
  if (in >> id) {
    if (Result<File> open = File::openRead(path); open) here = place(open->fd());
    if (in >> machine >> file) copied = machine + " " + file != here;
    if (!copied && !file.empty()) return id;
  }
  if (id.empty() || copied) id = access::randomHex(16);
  Result<OutputFile> out = OutputFile::create(path);
  if (!out) return out.status();
  TS_TRY(out->write(id + " " + place(out->file().fd()) + "\n"));
  TS_TRY(out->commitDurably());
  return id;
}

constexpr auto kDeliverAtMost = std::chrono::seconds(30);

class AgentServer final : public Server, private pb::ClusterService::Service {
 public:
  Status start(AgentOptions options);
  ~AgentServer() override {
    {
      std::lock_guard lock(inventory_->mutex);
      inventory_->ended = true;
    }
    if (processes_) processes_->stop();
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    link_.reset();
    ranks_.reset();
    live_.reset();
    recorder_.reset();
    if (lock_ >= 0) ::close(lock_);
  }
  uint16_t port() const override { return port_; }
  std::string name() const override { return node_; }
  NodeStatus status() const override;
  Status startCapture() override;
  Status stopCapture() override;
  Status exportTrace(const std::string& path) override;
  Status synchronizeTime() override { return clock_->synchronize(); }

 private:
  grpc::Status Invite(grpc::ServerContext* context, const pb::InviteRequest* request,
                      pb::InviteResponse* response) override {
    const access::Peer peer = peerOf(context->peer());
    access::Role role;
    // An agent that starts jobs, or runs code in them, does what its master says.
    const access::Role needed = allows_launch_ || allows_eval_ ? access::Role::kAdmin : access::Role::kOperator;
    if (Status s = guard_.admit(peer, tokenOf(*context), needed, role, "Invite"); !s) return toGrpc(s);
    std::string host = request->master_host();
    if (host.empty()) host = peer.host;
    const std::string text = access::Address{host, static_cast<uint16_t>(request->master_port())}.text();
    Result<access::Address> address = access::parseAddress(text, kMasterPort);
    guard_.audit(context->peer(), role, "invite", text.substr(0, 256), address.status());
    if (!address) return toGrpc(address.status());
    if (Status s = keepMaster(text); !s) return toGrpc(s);
    link_->dial(text);
    response->set_node_id(node_);
    return grpc::Status::OK;
  }

  grpc::Status GetProcesses(grpc::ServerContext* context, const pb::GetProcessesRequest* request,
                            pb::GetProcessesResponse* response) override {
    access::Role role;
    if (Status s = guard_.admit(peerOf(context->peer()), tokenOf(*context), neededFor(*request), role, "GetProcesses");
        !s)
      return toGrpc(s);
    const ProcessQuery query = fromMessage(*request);
    const NodeProcesses answer = processes_->answer(query);
    auditDeed(context->peer(), role, query, outcomeOf(answer));
    toMessage(answer, *response->add_nodes());
    return grpc::Status::OK;
  }

  void auditDeed(const std::string& peer, access::Role role, const ProcessQuery& query, const Status& outcome) {
    if (const std::optional<Deed> deed = deedOf(query)) guard_.audit(peer, role, deed->what, deed->detail, outcome);
  }

  /// The master of an invitation is still ours after a restart.
  Status keepMaster(const std::string& address) {
    Result<OutputFile> out = OutputFile::create(folder_ + "/master-address");
    if (!out) return out.status();
    TS_TRY(out->write(address + "\n"));
    return out->commitDurably();
  }

  std::string folder_, node_;
  uint16_t port_ = 0;
  int lock_ = -1;
  bool allows_launch_ = false, allows_eval_ = false;
  /// What the node has, found by a thread of its own.
  struct Inventory {
    std::mutex mutex;  // guards what follows
    model::NodeDescription hardware;
    bool ended = false;
  };
  const std::shared_ptr<Inventory> inventory_ = std::make_shared<Inventory>();  // shared with that thread
  access::Guard guard_;
  std::mutex capture_mutex_;  // guards capture_
  CaptureSpan capture_;       // our own; empty id: there was none
  std::unique_ptr<SimulatedNode> simulation_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<ClockKeeper> clock_;
  AskedStacks asked_stacks_;
  hardware::Latest latest_;  // of the node's one sampler
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<RasWatch> ras_;  // null: NCCL is not asked
  std::unique_ptr<LiveReporter> live_;
  std::unique_ptr<ProcessLook> processes_;
  std::unique_ptr<PlanCarrier> plans_;
  std::unique_ptr<Outward> outward_;
  std::unique_ptr<RankHost> ranks_;
  std::unique_ptr<MasterLink> link_;
  std::unique_ptr<grpc::Server> server_;
};

NodeStatus AgentServer::status() const {
  NodeStatus s;
  s.node = node_;
  s.hostname = capture::hostName();
  {
    std::lock_guard lock(inventory_->mutex);
    copyHardware(inventory_->hardware, s);
  }
  s.simulated = simulation_ != nullptr;
  s.allows_launch = allows_launch_;
  s.allows_eval = allows_eval_;
  s.connected = link_->connected();
  const RecorderStats recorded = recorder_->stats();
  s.processes = recorded.processes;
  s.captures = recorded.captures;
  s.records = recorded.records;
  s.losses = recorded.losses;
  s.problem = recorded.problem.empty() ? link_->problem() : recorded.problem;
  if (s.problem.empty()) s.problem = clock_->problem();
  s.spool_bytes = spool_->unacknowledged();
  s.sent_bytes = link_->sentBytes();
  const ClockReport clock = clock_->now();
  s.clock = clock.status();
  return s;
}

Status AgentServer::startCapture() {
  std::lock_guard lock(capture_mutex_);
  if (!capture_.id.empty() && capture_.end_ns == 0) return Status::invalid("this node is already being captured");
  spool_->hold(true);  // until it was exported, or the next one begins
  capture_ = {"local-" + access::randomHex(8), clock_->toReference(rawClock()), 0, 0};
  recorder_->setLocalCapture(capture_);
  return {};
}

Status AgentServer::stopCapture() {
  std::lock_guard lock(capture_mutex_);
  if (capture_.id.empty() || capture_.end_ns != 0) return Status::invalid("this node has no capture of its own");
  capture_.end_ns = clock_->toReference(rawClock());
  recorder_->setLocalCapture(capture_);
  return {};
}

Status AgentServer::exportTrace(const std::string& path) {
  std::lock_guard lock(capture_mutex_);
  if (capture_.id.empty()) return Status::invalid("this node has no capture of its own");
  if (capture_.end_ns == 0) return Status::invalid("the capture is still running: stop it first");
  const auto deadline = std::chrono::steady_clock::now() + kDeliverAtMost;
  while (!recorder_->done(capture_)) {
    if (std::chrono::steady_clock::now() > deadline)
      return Status::io("the capture is not completely on disk: " + recorder_->stats().problem);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  SessionRecord session;
  session.id = session.name = capture_.id;
  session.start_ns = capture_.start_ns;
  session.end_ns = capture_.end_ns;
  session.nodes = {node_};
  std::vector<SegmentInfo> segments;
  for (const auto& [file, size] : spool_->files()) {
    SegmentInfo& segment = segments.emplace_back();
    segment.node = node_;
    segment.path = file;
    segment.size = size;
    segment.first_ns = INT64_MIN;  // of any time: rows are looked at one by one
    segment.last_ns = INT64_MAX;
  }
  Result<OutputFile> out = OutputFile::create(path);
  if (!out) return out.status();
  TS_TRY(mergeSession(session, segments, {}, [&](std::string_view bytes, uint64_t) { return out->write(bytes); }));
  TS_TRY(out->commit());
  recorder_->setLocalCapture({});
  spool_->hold(false);
  return {};
}

Status AgentServer::start(AgentOptions options) {
  TS_TRY(access::checkListen(options.listen, options.security));
  ring::surviveCutRings();  // they are other users' files
  if (!options.master.empty()) {
    Result<access::Address> master = access::parseAddress(options.master, kMasterPort);
    if (!master) return master.status();
    options.master = master->text();
  }
  folder_ = options.data_dir + "/agent";
  TS_TRY(makePrivateFolder(folder_));
  const std::string lock = folder_ + "/agent.lock";
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) return errnoStatus("create", lock);
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0)
    return Status::invalid("another agent is using " + options.data_dir + ": give this one its own --data-dir");
  TS_TRY(guard_.open(options.security, folder_ + "/audit.log"));
  bool copied;
  Result<std::string> agent_id = identity(folder_ + "/id", copied);
  if (!agent_id) return agent_id.status();
  if (copied) ::unlink((folder_ + "/name").c_str());  // that of the other one
  if (!options.node_id.empty()) {
    TS_TRY(access::checkName("node", options.node_id));
    node_ = options.node_id;
  } else {
    // Two agents on one host have two ports, so they are two nodes.
    std::string name = capture::hostName();
    if (options.port == 0)
      name += "-" + agent_id->substr(0, 4);
    else if (options.port != kAgentPort)
      name += "-" + std::to_string(options.port);
    Result<std::string> kept = keptWord(folder_ + "/name", name);
    if (!kept) return kept.status();
    TS_TRY(access::checkName("node", *kept));
    node_ = *kept;
  }
  if (options.ring_folder.empty()) {
    Result<std::string> rings = ring::ringFolder();
    if (!rings) return rings.status();
    options.ring_folder = *rings;
  }
  Result<std::unique_ptr<Spool>> spool = Spool::open(folder_ + "/spool");
  if (!spool) return spool.status();
  spool_ = std::move(*spool);
  const bool own_source = options.clock.kind != sync::Source::Kind::exchange;
  clock_ = std::make_unique<ClockKeeper>(
      folder_ + (own_source ? std::string("/clock-") + sync::sourceName(options.clock.kind) : "/clock"), options.clock);

  Result<std::unique_ptr<Outward>> outward = Outward::create(options.interface);
  if (!outward) return outward.status();
  outward_ = std::move(*outward);
  NodeRegistration info;
  info.node = node_;
  info.hostname = capture::hostName();
  info.agent_id = *agent_id;
  info.boot_id = access::kernelBootId();
  info.machine_id = access::machineId();
  info.version = TRACESMITH_VERSION;
  info.simulated = options.sim_gpus > 0;
  info.allows_launch = allows_launch_ = options.allow_launch;
  info.allows_eval = allows_eval_ = options.allow_eval;
  hardware::Places places = hardware::Places::fromEnvironment();
  places.node = node_;
  if (options.sim_gpus > 0) places.simulated_gpus = options.sim_gpus;
  if (options.sim_gpus > 0) {
    Result<std::unique_ptr<SimulatedNode>> simulation = SimulatedNode::start(options, node_);
    if (!simulation) return simulation.status();
    simulation_ = std::move(*simulation);
  }
  RecorderOptions recording;
  recording.node = node_;
  recording.ring_folder = options.ring_folder;
  recording.captures_file = folder_ + "/captures";
  recording.freq_ms = options.freq_ms;
  recording.ring_roots = ring::RingFolders::rootsFromEnvironment();
  recording.keep_dead_ns = static_cast<int64_t>(options.keep_rings_s * 1e9);
  recording.segment_bytes = options.segment_bytes;
  recording.tick_ms = options.tick_ms;
  recorder_ = std::make_unique<Recorder>(recording, *spool_, *clock_, std::make_unique<HardwareSource>(places, latest_),
                                         &asked_stacks_);
  processes_ = std::make_unique<ProcessLook>(
      ProcessLook::Options{node_, places.root, options.ring_folder, options.allow_eval, &asked_stacks_,
                           [this](const ProcessQuery& query, const Status& outcome) {
                             auditDeed("master", access::Role::kAdmin, query, outcome);
                           }},
      latest_);
  port_ = options.port;
  Result<std::unique_ptr<grpc::Server>> server = startServer(*this, options.listen, port_, options.security);
  if (!server) return server.status();
  server_ = std::move(*server);
  guard_.setPort(port_);
  if (options.ras)
    ras_ = std::make_unique<RasWatch>(places.root, options.ras_port ? std::optional(options.ras_port) : std::nullopt);
  live_ = std::make_unique<LiveReporter>(places.node, options.ring_folder, latest_, ras_.get());
  plans_ = std::make_unique<PlanCarrier>(options.ring_folder);
  ranks_ = std::make_unique<RankHost>(
      RankHost::Options{options.allow_launch, node_, options.ring_folder, options.security, outward_.get(),
                        [this](const std::string& what, const Status& outcome) {
                          guard_.audit("master", access::Role::kAdmin, "launch", what, outcome);
                        }});
  link_ = std::make_unique<MasterLink>(MasterLink::Options{info, port_, options.security, options.max_rate}, *outward_,
                                       *spool_, *recorder_, *clock_, *live_, *processes_, *plans_, *ranks_);
  if (options.master.empty()) {
    std::ifstream in(folder_ + "/master-address");
    in >> options.master;
  }
  link_->dial(options.master);
  // A driver may take long to answer, or for ever: nobody waits for it. Shared: it may outlive us.
  std::thread([state = inventory_, places, link = link_.get()] {
    model::NodeDescription found = describeHardware(places);
    std::lock_guard guard(state->mutex);
    state->hardware = found;
    if (!state->ended) link->setHardware(std::move(found));
  }).detach();
  return {};
}

}  // namespace

Result<std::unique_ptr<Server>> startAgentServer(const AgentOptions& options) {
  auto server = std::make_unique<AgentServer>();
  TS_TRY(server->start(options));
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace tracesmith::cluster
