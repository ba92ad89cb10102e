#include "capture/collect/collector.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "capture/collect/process.hpp"
#include "capture/ring/writer.hpp"
#include "model/coverage.hpp"

namespace tracesmith::capture {

using namespace tracesmith::trace;
using ring::Record;
using RingKind = ring::Kind;

namespace {

int64_t orNull(int32_t v) { return v < 0 ? kNull : v; }

}  // namespace

std::string hostName() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

Collector::Collector(Writer& writer, std::string node)
    : writer_(writer), out_(writer.appender()), node_(std::move(node)), node_id_(writer.string(node_)) {}
Collector::~Collector() = default;

bool Collector::follows(const std::string& path) const {
  return std::find(seen_.begin(), seen_.end(), path) != seen_.end();
}

/// A simulation plays several machines.
int64_t Collector::nodeOf(const ring::RingHeader& h) {
  return h.simulated ? writer_.string({h.host, ::strnlen(h.host, sizeof h.host)}) : node_id_;
}

Status Collector::follow(const std::string& path, bool attach) {
  Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(path);
  if (!reader) return reader.status();
  if (attach) (*reader)->attach();
  auto process = std::make_unique<Process>();
  process->ring = std::move(*reader);
  process->cursors = process->ring->tails();
  const ring::RingHeader& h = process->ring->header();
  if (h.start_ns < since_ns_)  // what it lost before is not missing here
    for (uint32_t cause = 0; cause < ring::kLossCauses; ++cause) process->losses_told[cause] = h.losses[cause].load();
  process->node = nodeOf(h);
  // The record that said so may be gone.
  if (const uint64_t off = h.gpu_off_ns.load(); off != 0 && h.start_ns < since_ns_) process->nccl.gpu_off_ns = off;
  if (process->ring->wrapped(0)) {
    process->gpu_since = UINT64_MAX;
    ring::Cursors all;
    process->ring->follow(
        all, [](const Record& r) { return r.kind == RingKind::kernel; },
        [&](uint32_t, const Record& r) { process->gpu_since = std::min(process->gpu_since, r.start); });
  }
  // A process that has started since and already overwrites its ring has lost records that we should have taken.
  if (attach && since_ns_ > 0 && h.start_ns >= since_ns_)
    for (uint64_t tail : process->cursors) process->skipped += tail;
  processes_.push_back(std::move(process));
  seen_.push_back(path);
  ++stats_.processes;
  return {};
}

Result<size_t> Collector::drain() {
  size_t count = 0;
  tellRolesApart();
  for (auto& p : processes_) {
    p->ring->drain([&](uint32_t lane, const Record& r) { count += takeSince(*p, lane, r); });
    pass(*p);
  }
  stats_.records += count;
  if (!status_) return status_;
  return count;
}

Result<size_t> Collector::snapshot() {
  size_t count = 0;
  tellRolesApart();
  for (auto& p : processes_) {
    p->ring->snapshot([&](uint32_t lane, const Record& r) { count += takeSince(*p, lane, r); });
    pass(*p);
  }
  stats_.records += count;
  if (!status_) return status_;
  return count;
}

size_t Collector::takeSince(Process& p, uint32_t lane, const Record& r) {
  const bool context = r.kind == RingKind::thread || r.kind == RingKind::comm || r.kind == RingKind::metadata ||
                       r.kind == RingKind::process_group || r.kind == RingKind::graph_node;
  // Kernels that end from now on may belong to operations launched before.
  const bool joined = joins(p, lane, r);
  if (!context && std::max(r.start, r.end) < since_ns_) return 0;
  // If the GPU is not recorded when the rows begin, or what it did then is overwritten, this is noted once.
  if (since_ns_ > 0 && !context && !std::exchange(p.gpu_told, true)) {
    if (p.nccl.gpuIsOff())
      gpuRow(p, false, since_ns_);
    else if (p.gpu_since > since_ns_ && p.gpu_since != UINT64_MAX)
      gpuRow(p, true, p.gpu_since);
  }
  if (!joined) take(p, lane, r);
  return 1;
}

/// What is needed to find the kernels of operations. Returns whether there is nothing else to do with the record.
bool Collector::joins(Process& p, uint32_t lane, const Record& r) {
  auto text = [&](uint32_t id) { return p.ring->string(id); };
  auto done = [&](const NcclJoin::Operation& o, const ring::KernelRecord* k) { operationDone(p, o, k); };
  auto tid = p.lane_tids.find(lane);
  const int64_t thread = tid == p.lane_tids.end() ? 0 : tid->second;
  // It is not known whether operations older than the GPU's lane have ended.
  const bool known = r.start >= p.gpu_since;
  switch (r.kind) {
    case RingKind::nccl_launch:
      p.times.launch(lane, launchOf(r));
      if (known) p.nccl.launch(lane, launchOf(r), thread, done);
      return true;
    case RingKind::collective:
    case RingKind::p2p: {
      p.has_operations = true;
      ring::OperationRecord o = operationOf(r);
      o.launch = p.times.launchOn(lane);
      if (known)
        p.nccl.operation(lane, o, thread, done);
      else
        operationDone(p, {o}, nullptr);
      return true;
    }
    case RingKind::host_operation:
      p.has_operations = true;
      hostOperation(p, hostOperationOf(r));
      return true;
    case RingKind::nccl_time:
      for (const ring::OperationRecord& o : p.times.time(launchTimeOf(r))) collectiveRow(p, {o}, nullptr);
      return true;
    case RingKind::kernel:
      p.nccl.kernel(kernelOf(r), rawClock(), text, done);
      return false;
    case RingKind::graph:
      ++p.graph_launches;
      p.nccl.graph(graphOf(r), rawClock());
      return false;
    case RingKind::memcpy:
      p.nccl.copy(copyOf(r), rawClock());
      return false;
    case RingKind::runtime:
    case RingKind::driver:
      p.nccl.call(callOf(r), text, done);
      return false;
    case RingKind::gpu_on:
    case RingKind::gpu_off: {
      const bool was_off = p.nccl.gpuIsOff();
      p.nccl.gpu(gpuOnOf(r), text, done);
      if (was_off != p.nccl.gpuIsOff() && r.start >= since_ns_) gpuRow(p, was_off, r.start);
      return true;
    }
    default:
      return false;
  }
}

/// Roles may each count their ranks from 0. Who came first keeps its rank; the other is known by its process id.
void Collector::tellRolesApart() {
  for (auto& p : processes_) {
    if (p->ring->cut() || p->rank_of_role) continue;
    const ring::RingHeader& h = p->ring->header();
    const std::string_view role = p->ring->string(h.role.load());
    if (role.empty() || h.rank.load() < 0) continue;
    for (const auto& other : processes_) {
      if (other == p || other->ring->cut() || other->rank() != h.rank.load()) continue;
      const ring::RingHeader& o = other->ring->header();
      if (o.start_ns < h.start_ns && other->ring->string(o.role.load()) != role) p->rank_of_role = true;
    }
  }
}

/// Everything in the ring has been read.
void Collector::pass(Process& p) {
  const ring::RingHeader& h = p.ring->header();
  if (!p.ring->cut())
    p.nccl.missing =
        h.losses[ring::kCuptiDropped].load() + h.losses[ring::kBadTime].load() + h.losses[ring::kRingFull].load();
  p.nccl.counted_from = since_ns_;
  p.nccl.pass(
      rawClock(), [&](uint32_t id) { return p.ring->string(id); },
      [&](const NcclJoin::Operation& o, const ring::KernelRecord* k) { operationDone(p, o, k); });
}

size_t Collector::alive() const {
  return static_cast<size_t>(
      std::count_if(processes_.begin(), processes_.end(), [](const auto& p) { return p->ring->alive(); }));
}

/// `pid` is the one outside the container; this finds the process inside.
static std::string namespaceFacts(const ring::RingReader& ring) {
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("pid_namespace", ring.header().pid_namespace);
  w.field("container_pid", ring.header().pid).endObject();
  return text;
}

void Collector::processRow(Process& p) {
  const ring::RingHeader& h = p.ring->header();
  p.role = p.ring->cut() ? p.role : h.role.load();
  ProcessRow row;
  row.node = p.node;
  row.pid = p.pid();
  row.rank = p.rank();
  row.world_size = orNull(h.world_size.load());
  row.local_rank = orNull(h.local_rank.load());
  std::string_view command(h.command, ::strnlen(h.command, sizeof h.command));
  std::string_view program = command.substr(0, command.find(' '));
  row.name = writer_.string(h.simulated ? kSimulated : program.substr(program.rfind('/') + 1));
  row.command = out_->text(command);
  row.ts_start = static_cast<int64_t>(h.start_ns);
  if (p.role != 0) row.role = writer_.string(p.ring->string(p.role));
  if (!p.ring->cut()) {
    auto say = [&](int64_t& out, const std::atomic<uint32_t>& id) {
      if (const uint32_t known = id.load()) out = writer_.string(p.ring->string(known));
    };
    say(row.job, h.scheduled_job);
    say(row.job_step, h.scheduled_step);
    say(row.pod, h.pod);
    say(row.pod_namespace, h.pod_namespace);
  }
  if (h.simulated)
    row.args = out_->text("{\"simulated\":true}");
  else if (p.ring->inOtherNamespace())
    row.args = out_->text(namespaceFacts(*p.ring));
  append(row);
  if (h.simulated) {
    DeviceRow device;
    device.node = p.node;
    device.device = orNull(h.local_rank.load());
    device.name = writer_.string("Simulated H100");
    device.vendor = writer_.string(kSimulated);
    append(device);
    stats_.simulated = true;
  }
  if (!nodes_.insert(p.node).second || !describe_nodes_) return;
  ClockRow clock;
  clock.node = p.node;
  clock.ts_from = static_cast<int64_t>(h.start_ns);
  clock.offset_ns = static_cast<int64_t>(h.start_unix_ns - h.start_ns);
  clock.drift_ppm = real(0);
  clock.method = writer_.string("system clock");
  clock.reference = writer_.string("unix");
  append(clock);
  if (node_described_ && p.node == node_id_) return;
  NodeRow node;
  node.node = node.hostname = p.node;
  if (h.simulated) node.os = writer_.string(kSimulated);
  append(node);
}

void Collector::lossRows(Process& p) {
  const ring::RingHeader& h = p.ring->header();
  auto tell = [&](const char* cause, uint64_t count, uint64_t& told, const char* detail = nullptr) {
    if (count <= told) return;
    LossRow loss;
    loss.node = p.node;
    loss.rank = p.rank();
    loss.pid = p.pid();
    loss.cause = writer_.string(cause);
    loss.count = static_cast<int64_t>(count - told);
    if (detail) loss.detail = out_->text(detail);
    append(loss);
    stats_.losses += count - told;
    told = count;
  };
  for (uint32_t cause = 0; cause < ring::kLossCauses; ++cause)
    tell(ring::kLossNames[cause], h.losses[cause].load(), p.losses_told[cause]);
  tell("overwritten", p.skipped, p.skipped_told);
  constexpr const char* kHowToSee = "the kernels in CUDA graphs are not recorded: run with --graph-nodes";
  tell(kLostKernels, p.nccl.lost + p.nccl.graphs.lost, p.unjoined_told[0]);
  tell(kLoneKernels, p.nccl.lone + p.nccl.graphs.lone, p.unjoined_told[1]);
  tell(kDoubtedKernels, p.nccl.doubted, p.unjoined_told[4]);
  tell(kHiddenReplays, p.nccl.graphs.hidden, p.unjoined_told[2], kHowToSee);
  tell(kHiddenCopies, p.nccl.hidden_copies, p.unjoined_told[3],
       "which copies are theirs is not recorded in light mode");
  if (!p.ring->cut() && p.graph_launches > 0 && !p.nccl.captured.empty() && !p.nccl.graphs.knows() &&
      !std::exchange(p.hidden_told, true)) {
    LossRow loss;  // how many ran in each is not known
    loss.node = p.node;
    loss.rank = p.rank();
    loss.pid = p.pid();
    loss.cause = writer_.string(kHiddenReplays);
    loss.detail = out_->text(kHowToSee);
    append(loss);
    ++stats_.losses;
  }
  if (p.ring->cut() && !std::exchange(p.cut_told, true)) {
    LossRow loss;  // how many is not known
    loss.node = p.node;
    loss.rank = p.rank();
    loss.pid = p.pid();
    loss.cause = writer_.string("ring cut short");
    loss.detail = out_->text(p.ring->path() + " was truncated");
    append(loss);
    ++stats_.losses;
  }
}

void Collector::settle() {
  for (auto& p : processes_)
    p->nccl.settle([&](uint32_t id) { return p->ring->string(id); },
                   [&](const NcclJoin::Operation& o, const ring::KernelRecord* k) { operationDone(*p, o, k); });
}

/// Launched and not seen to end: in flight when the recording stopped, or waiting for a rank that never came.
void Collector::giveUpInFlight(int64_t end_raw) {
  for (auto& p : processes_) {
    const size_t in_flight = giveUp(*p);
    // Operations whose end cannot be seen may be in flight, too.
    if (in_flight == 0 && !(p->nccl.gpuIsOff() && p->has_operations && p->ring->alive())) continue;
    EventRow end;  // how long they were waited for, if nothing else happens
    end.ts = std::min(rawClock(), end_raw);
    end.type = static_cast<int64_t>(EventType::marker);
    end.name = writer_.string(in_flight ? model::kEndsInFlight : "recording ends");
    end.node = p->node;
    end.rank = p->rank();
    end.pid = p->pid();
    append(end);
  }
}

size_t Collector::giveUp(Process& p) {
  const size_t in_flight =
      p.nccl.giveUp([&](uint32_t id) { return p.ring->string(id); },
                    [&](const NcclJoin::Operation& o, const ring::KernelRecord* k) { operationDone(p, o, k); });
  const std::vector<ring::OperationRecord> waiting = p.times.giveUp();
  for (const ring::OperationRecord& o : waiting) collectiveRow(p, {o}, nullptr);
  return in_flight + waiting.size() + giveUpHostOperations(p);
}

/// Its kernel was found, or will not be. Where CUPTI did not record it, events may have timed it.
void Collector::operationDone(Process& p, const NcclOperation& o, const ring::KernelRecord* kernel) {
  const bool waits = !kernel && !o.hidden && o.record.launch != 0 && !o.record.captured && !p.times.of(o.record);
  waits ? p.times.wait(o.record) : collectiveRow(p, o, kernel);
}

Status Collector::finish() {
  giveUpInFlight();
  for (auto& p : processes_) {
    processRow(*p);
    lossRows(*p);
    watchRow(*p);
    if (p->watched) merge(stats_.watched, *p->watched);
    const ring::RingHeader& h = p->ring->header();
    stats_.saw_cuda |= h.cuda_state.load() == 1;
    if (h.note[0]) stats_.notes.emplace_back(h.note, ::strnlen(h.note, sizeof h.note));
  }
  if (nodes_.empty() && !node_described_) {
    NodeRow node;
    node.node = node.hostname = node_id_;
    append(node);
  }
  TS_TRY(status_);
  return out_->flush();
}

}  // namespace tracesmith::capture
