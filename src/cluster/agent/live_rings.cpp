#include "cluster/agent/live_rings.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "base/clock.hpp"
#include "capture/collect/collector.hpp"
#include "capture/collect/in_flight.hpp"
#include "cluster/agent/process_stat.hpp"
#include "model/communication.hpp"
#include "model/operation.hpp"
#include "model/ring/nccl_names.hpp"

namespace tracesmith::cluster {

using namespace analysis::live;
using capture::NcclJoin;
using ring::KernelRecord;
using ring::Kind;
using ring::OperationRecord;
using ring::Record;

namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kLateKernelsNs = 300 * kMs;  // CUPTI hands kernels over every 100 ms
constexpr size_t kMostSteps = 64, kMostTransfers = 4, kMostPairs = 8;
constexpr size_t kMostPeers = 32, kMostOps = 64;  // of a communicator, whose numbers are told
constexpr size_t kMostProgress = 256, kMostSizes = 1024, kMostStreams = 1024, kMostNames = 65536;

}  // namespace

bool RingFollower::isNccl(uint32_t name) {
  if (is_nccl_.size() > kMostNames) is_nccl_.clear();
  auto [it, fresh] = is_nccl_.try_emplace(name, false);
  if (fresh) it->second = model::isNcclKernel(ring_->string(name));
  return it->second;
}

/// Called for every record of the process: most are none of ours.
bool RingFollower::wanted(const Record& r) {
  switch (r.kind) {
    case Kind::kernel:
    case Kind::memcpy:
    case Kind::memset:
    case Kind::graph:
      ++activity_;
      last_work_ns_ = std::max(last_work_ns_, r.end);
      return r.kind == Kind::graph || (r.kind == Kind::kernel && isNccl(r.name));
    case Kind::step:
    case Kind::comm:
    case Kind::collective:
    case Kind::p2p:
    case Kind::nccl_launch:
    case Kind::nccl_time:
    case Kind::gpu_on:
    case Kind::gpu_off:
    case Kind::host_operation:
      return true;
    default:
      return training_.wanted(*ring_, r);
  }
}

/// Makes room for one more by forgetting what was not used for the longest time.
template <typename Map>
static bool makeRoom(Map& map, const typename Map::key_type& key, size_t most) {
  if (map.size() < most || map.contains(key)) return false;
  map.erase(std::min_element(map.begin(), map.end(),
                             [](const auto& a, const auto& b) { return a.second.touched < b.second.touched; }));
  return true;
}

RingFollower::Comm& RingFollower::comm(uint64_t hash) {
  left_out_ += makeRoom(comms_, hash, kMostComms);
  Comm& c = comms_[hash];
  c.state.comm = hash;
  c.touched = ++touched_;
  return c;
}

RingFollower::Comm& RingFollower::comm(const OperationRecord& r) {
  Comm& c = comm(r.comm);
  if (r.rank >= 0) c.state.group_rank = r.rank;
  if (r.ranks) c.state.size = static_cast<int32_t>(r.ranks);
  return c;
}

OpProgress& RingFollower::progress(Comm& c, uint32_t name, int32_t peer) {
  left_out_ += makeRoom(c.progress, {name, peer}, kMostProgress);
  Progress& p = c.progress[{name, peer}];
  if (p.touched == 0) {
    p.state.op = model::opNameOf(ring_->string(name));
    p.state.peer = peer;
  }
  p.touched = ++touched_;
  return p.state;
}

/// Of many peers those it last had to do with.
void RingFollower::addProgress(const Comm& c, CommState& state, uint64_t& left_out) {
  std::vector<const Progress*> pairs;
  for (const auto& [key, p] : c.progress)
    if (p.state.peer < 0)
      state.ops.push_back(p.state);
    else
      pairs.push_back(&p);
  std::sort(pairs.begin(), pairs.end(), [](const Progress* a, const Progress* b) { return a->touched > b->touched; });
  if (pairs.size() > kMostPeers) pairs.resize(kMostPeers);
  for (const Progress* p : pairs) state.ops.push_back(p->state);
  if (state.ops.size() > kMostOps) {
    left_out += state.ops.size() - kMostOps;
    state.ops.resize(kMostOps);
  }
}

void RingFollower::ended(const NcclJoin::Operation& o, const KernelRecord* kernel) {
  const OperationRecord& r = o.record;
  if (!kernel) {
    // Launched while the GPU was not recorded. The last are enough: who has not come to an older one has not to them.
    if (r.captured || r.sequence == ring::kUnknown || (r.start >= join_.gpu_on_ns && r.start < join_.gpu_off_ns))
      return;
    if (r.launch != 0 && times_.of(r)) return timed(r);
    if (unseen_.size() >= kMostComms && !unseen_.contains(r.comm)) {
      ++left_out_;
      return;
    }
    std::deque<OperationRecord>& last = unseen_[r.comm];
    last.push_back(r);
    if (last.size() > kMostPerStream) last.pop_front();
    return;
  }
  Comm& c = comm(r);
  OpProgress& p = progress(c, r.function, r.peer);
  p.completed = std::max(p.completed.value_or(0), r.sequence);
  // A kernel that sends to several at once says nothing about one of them.
  if (again_ || kernel->end <= kernel->start || (r.pair && (r.peer < 0 || o.mixed))) return;
  const int64_t bytes = model::messageBytes(model::opKind(p.op), nccl::bytesOf(r), c.state.size);
  const auto ns = static_cast<int64_t>(kernel->end - kernel->start);
  if (c.transfers.size() >= kMostSizes && !c.transfers.contains({p.op, bytes, r.peer})) {
    ++left_out_;
    return;
  }
  Transfers& t = c.transfers[{p.op, bytes, r.peer}];
  t.op = p.op;
  t.bytes = bytes;
  t.peer = r.peer;
  t.shortest_ns = t.count == 0 ? ns : std::min(t.shortest_ns, ns);
  t.total_ns += ns;
  ++t.count;
}

/// Nobody saw its kernel, but events tell that it has ended.
void RingFollower::timed(const OperationRecord& r) {
  OpProgress& p = progress(comm(r), r.function, r.peer);
  p.completed = std::max(p.completed.value_or(0), r.sequence);
}

void RingFollower::takeStep(const ring::StepRecord& r) {
  if (again_ || r.end == 0 || r.end == r.start) return;  // the last was none
  steps_.push_back({r.step, r.start, r.end, 0});
  if (steps_.size() > 4 * kMostSteps) steps_.pop_front();
}

void RingFollower::take(uint32_t lane, const Record& r) {
  auto done = [this](const NcclJoin::Operation& o, const KernelRecord* kernel) { ended(o, kernel); };
  switch (r.kind) {
    case Kind::step:
      training_.take(*ring_, r);
      return takeStep(stepOf(r));
    case Kind::counter:
      return training_.take(*ring_, r);
    case Kind::host_operation:
      return takeHost(hostOperationOf(r));
    case Kind::comm: {
      const ring::CommRecord record = commOf(r);
      Comm& c = comm(record.hash);
      c.state.name = ring_->string(record.name);
      c.state.group_rank = record.rank;
      c.state.size = record.ranks;
      return;
    }
    case Kind::gpu_on:
    case Kind::gpu_off:
      join_.gpu(
          gpuOnOf(r), [this](uint32_t id) { return ring_->string(id); }, done);
      return;
    case Kind::nccl_launch:
      times_.launch(lane, launchOf(r));
      if (r.start >= oldest_gpu_ns_) join_.launch(lane, launchOf(r), 0, done);
      return;
    case Kind::collective:
    case Kind::p2p: {
      OperationRecord o = operationOf(r);
      o.launch = times_.launchOn(lane);
      if (o.sequence == ring::kUnknown || o.captured) return;  // of a communicator that nobody knows, or in a graph
      OpProgress& p = progress(comm(o), o.function, o.peer);
      p.entered = std::max(p.entered, o.sequence);
      if (o.start >= oldest_gpu_ns_) join_.operation(lane, o, 0, done);
      return;
    }
    case Kind::nccl_time: {
      const ring::LaunchTimeRecord time = launchTimeOf(r);
      times_.time(time);
      for (auto& [comm, last] : unseen_)
        std::erase_if(last, [&](const OperationRecord& o) {
          if (o.launch != time.number) return false;
          timed(o);
          return true;
        });
      return eachUnrecorded([&](const OperationRecord& o) { o.launch == time.number ? timed(o) : void(); });
    }
    case Kind::graph:
      return join_.graph(graphOf(r), rawClock());
    default: {  // a kernel of NCCL
      join_.kernel(
          kernelOf(r), rawClock(), [this](uint32_t id) { return ring_->string(id); }, done);
      if (stream_end_.size() < kMostStreams || stream_end_.contains(r.stream)) {
        uint64_t& end = stream_end_[r.stream];
        end = std::max(end, r.end);
      }
      if (again_) return;
      longest_wait_ns_ = std::max(longest_wait_ns_, static_cast<int64_t>(r.end - r.start));
      for (auto s = steps_.rbegin(); s != steps_.rend(); ++s)
        if (s->start <= r.start) {
          if (r.start < s->end) s->comm_ns += static_cast<int64_t>(r.end - r.start);
          break;
        }
    }
  }
}

void RingFollower::read() {
  ring_->follow(
      cursors_, [this](const Record& r) { return wanted(r); },
      [this](uint32_t lane, const Record& r) { take(lane, r); });
  join_.pass(
      ring_->alive() ? rawClock() : UINT64_MAX, [this](uint32_t id) { return ring_->string(id); },
      [this](const NcclJoin::Operation& o, const KernelRecord* kernel) { ended(o, kernel); });
}

/// Whether the GPU's work was recorded all the time of a step, as far as the last gap tells.
bool RingFollower::recorded(const Step& s) const { return s.start >= join_.gpu_on_ns && s.end <= join_.gpu_off_ns; }

/// Everything the ring holds. Of operations older than what the GPU's lane reaches back to nobody knows whether they
/// ended.
void RingFollower::readAnew() {
  join_ = {};
  join_.hold_ns = kLateKernelsNs;
  times_ = {};
  unseen_.clear();
  host_.clear();
  oldest_gpu_ns_ = 0;
  if (ring_->wrapped(0)) {
    if (const uint64_t off = ring_->header().gpu_off_ns.load()) join_.gpu_off_ns = off;  // what said so may be gone
    oldest_gpu_ns_ = UINT64_MAX;
    ring::Cursors all;
    ring_->follow(
        all, [](const Record& r) { return r.kind == Kind::kernel; },
        [this](uint32_t, const Record& r) { oldest_gpu_ns_ = std::min(oldest_gpu_ns_, r.start); });
  }
  cursors_ = {};
  read();
  cursors_.missed = missed_;  // what was gone before is no loss
}

void RingFollower::addProcess(uint64_t now, ProcessReport& p) {
  const ring::RingHeader& h = ring_->header();
  if (!ring_->alive()) {
    p.state = h.state.load() == ring::State::ended ? ProcessState::ended : ProcessState::dead;
    return;
  }
  const std::optional<int64_t> pid = ring_->process();
  const std::optional<ProcessStat> stat = pid ? readStat(*pid) : std::nullopt;
  if (!stat) return;
  if (stat->stopped) p.state = ProcessState::stopped;
  // One process plays many simulated ones: what their CPU does nobody knows, what they write the simulation says.
  const std::optional<uint64_t> io = p.simulated ? h.simulated_io_bytes.load() : readIo(*pid);
  if (cpu_at_ns_ != 0 && now > cpu_at_ns_) {
    const auto ns = static_cast<double>(now - cpu_at_ns_);
    if (!p.simulated && stat->cpu_ns >= cpu_ns_) p.cpu_share = static_cast<double>(stat->cpu_ns - cpu_ns_) / ns;
    if (io && *io >= io_bytes_) p.io_bytes_per_s = static_cast<double>(*io - io_bytes_) / ns * 1e9;
  }
  cpu_ns_ = stat->cpu_ns;
  io_bytes_ = io.value_or(0);
  cpu_at_ns_ = now;
}

ProcessReport RingFollower::report(uint64_t now) {
  const ring::RingHeader& h = ring_->header();
  activity_ = 0;
  longest_wait_ns_ = 0;
  if (first_)
    readAnew();
  else
    read();
  if (cursors_.missed != missed_) {
    // Kernels may be among what was missed. What the ring still holds says what is in flight; nothing is counted twice.
    missed_ += cursors_.missed - missed_;
    again_ = true;
    readAnew();
    again_ = false;
  }
  first_ = false;
  ProcessReport p;
  p.pid = h.pid;
  p.rank = h.rank.load();
  p.world_size = h.world_size.load();
  p.local_rank = h.local_rank.load();
  p.role = ring_->string(h.role.load());
  p.torch = ring_->string(h.torch.load());
  p.cuda = ring_->string(h.cuda.load());
  p.nccl = ring_->string(h.nccl.load());
  p.simulated = h.simulated != 0;
  p.activity = activity_;
  if (const uint64_t since = std::max(last_work_ns_, join_.gpu_on_ns); last_work_ns_ != 0 && !join_.gpuIsOff())
    p.quiet_ns = static_cast<int64_t>(now > since ? now - since : 0);
  p.longest_wait_ns = longest_wait_ns_;
  p.missed = missed_;
  p.left_out = left_out_;
  addProcess(now, p);
  if (const auto step = training_.step(now)) {
    p.step = step->number;
    p.step_age_ns = step->age_ns;
  }
  if (p.state == ProcessState::running || p.state == ProcessState::stopped) setRates(p, training_.rates(now));
  while (!steps_.empty() && steps_.front().end + kLateKernelsNs < now) {
    const Step& s = steps_.front();
    StepTime& time = p.steps.emplace_back();
    time.step = s.step;
    time.duration_ns = static_cast<int64_t>(s.end - s.start);
    if (recorded(s)) time.comm_ns = s.comm_ns;
    steps_.pop_front();
  }
  if (p.steps.size() > kMostSteps) p.steps.erase(p.steps.begin(), p.steps.end() - kMostSteps);
  for (auto& [hash, c] : comms_) {
    if (!tellsHost(hash, now, p.state)) continue;
    CommState& state = p.comms.emplace_back(c.state);
    addProgress(c, state, p.left_out);
    // The largest ones: the same on all ranks, and what they take says most about the links.
    std::vector<Transfers> all;
    for (auto& [key, transfers] : c.transfers) all.push_back(std::move(transfers));
    std::stable_sort(all.begin(), all.end(), [](const Transfers& a, const Transfers& b) { return a.bytes > b.bytes; });
    size_t left[2] = {kMostTransfers, kMostPairs};
    for (Transfers& t : all)
      if (size_t& room = left[t.peer >= 0]; room > 0) {
        --room;
        state.transfers.push_back(std::move(t));
      }
    c.transfers.clear();
  }
  addInFlight(now, p);
  addHost(now, p);
  return p;
}

}  // namespace tracesmith::cluster
