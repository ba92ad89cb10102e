#include "capture/collect/collector.hpp"

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "capture/collect/in_flight.hpp"
#include "capture/collect/process.hpp"
#include "capture/probe/nccl_abi.hpp"
#include "capture/ring/writer.hpp"

namespace tracesmith::capture {

using namespace tracesmith::trace;
using ring::Record;
using RingKind = ring::Kind;

namespace {

constexpr size_t kSteps = 64;  // of a process, to tell which one a row belongs to

int64_t orNull(int32_t v) { return v < 0 ? kNull : v; }

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// CUPTI gives kernels by their linker names; people know them by their C++ names.
std::string demangled(std::string_view name) {
  std::string text(name);
  if (!name.starts_with("_Z")) return text;
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> readable(abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status),
                                                  std::free);
  return status == 0 && readable ? readable.get() : text;
}

}  // namespace

std::string hostName() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

Collector::Collector(Writer& writer, std::string node)
    : writer_(writer), out_(writer.appender()), node_(std::move(node)), node_id_(writer.string(node_)) {}
Collector::~Collector() = default;

template <typename Row>
void Collector::append(const Row& row) {
  if (status_) status_ = out_->append(row);
}

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
  if (process->ring->wrapped(0)) {
    process->gpu_since = UINT64_MAX;
    ring::Cursors all;
    process->ring->follow(
        all, [](const Record& r) { return r.kind == RingKind::kernel; },
        [&](uint32_t, const Record& r) { process->gpu_since = std::min(process->gpu_since, r.start); });
  }
  // One that was born since and has begun to overwrite has lost what we were to take.
  if (attach && since_ns_ > 0 && h.start_ns >= since_ns_)
    for (uint64_t tail : process->cursors) process->skipped += tail;
  processes_.push_back(std::move(process));
  seen_.push_back(path);
  ++stats_.processes;
  return {};
}

Result<size_t> Collector::drain() {
  size_t count = 0;
  for (auto& p : processes_) p->ring->drain([&](uint32_t lane, const Record& r) { count += takeSince(*p, lane, r); });
  stats_.records += count;
  if (!status_) return status_;
  return count;
}

Result<size_t> Collector::snapshot() {
  size_t count = 0;
  for (auto& p : processes_)
    p->ring->snapshot([&](uint32_t lane, const Record& r) { count += takeSince(*p, lane, r); });
  stats_.records += count;
  if (!status_) return status_;
  return count;
}

size_t Collector::takeSince(Process& p, uint32_t lane, const Record& r) {
  const bool context = r.kind == RingKind::thread || r.kind == RingKind::comm || r.kind == RingKind::metadata ||
                       r.kind == RingKind::gpu_on;
  if (!context && std::max(r.start, r.end) < since_ns_) {
    takeBefore(p, lane, r);
    return 0;
  }
  take(p, lane, r);
  return 1;
}

/// Kernels that end from now on may belong to operations launched before. Of those older than what the GPU's lane
/// reaches back to nobody knows whether they ended.
void Collector::takeBefore(Process& p, uint32_t lane, const Record& r) {
  auto nothing = [](const NcclJoin::Operation&, const Record*) {};
  const bool known = r.start >= p.gpu_since;
  if (r.kind == RingKind::nccl_launch && known)
    p.nccl.launch(lane, r);
  else if ((r.kind == RingKind::collective || r.kind == RingKind::p2p) && known)
    p.nccl.operation(lane, r, kNull, nothing);
  else if (r.kind == RingKind::kernel)
    p.nccl.kernel(
        r, [&](uint32_t id) { return p.ring->string(id); }, nothing);
}

size_t Collector::alive() const {
  return static_cast<size_t>(
      std::count_if(processes_.begin(), processes_.end(), [](const auto& p) { return p->ring->alive(); }));
}

int64_t Collector::name(Process& p, uint32_t id) {
  if (id == 0) return kNull;
  auto [it, fresh] = p.names.try_emplace(id, kNull);
  if (fresh) {
    std::string_view text = p.ring->string(id);
    if (text.data()) it->second = writer_.string(demangled(text));
  }
  return it->second;
}

void Collector::event(Process& p, const Record& r, EventType type) {
  EventRow row;
  row.ts = static_cast<int64_t>(r.start);
  row.dur = static_cast<int64_t>(r.end - r.start);
  row.type = static_cast<int64_t>(type);
  row.name = name(p, r.name);
  row.node = p.node;
  row.rank = p.rank();
  row.pid = p.pid();
  if (r.correlation) row.correlation = r.correlation;
  const auto context = static_cast<uint32_t>(r.arg[2]);
  switch (r.kind) {
    case RingKind::kernel:
      row.launch = name(p, static_cast<uint32_t>(r.arg[0]));
      if (uint32_t graph = static_cast<uint32_t>(r.arg[0] >> 32)) row.graph = graph;
      if (r.arg[1]) row.graph_node = static_cast<int64_t>(r.arg[1]);
      break;
    case RingKind::memcpy:
    case RingKind::memset:
      row.bytes = static_cast<int64_t>(r.arg[0]);
      if (uint32_t graph = static_cast<uint32_t>(r.arg[2] >> 32)) row.graph = graph;
      if (r.arg[1]) row.graph_node = static_cast<int64_t>(r.arg[1]);
      if (r.arg[3])
        row.args = out_->text("{\"src_device\":" + std::to_string((r.arg[3] >> 32) - 1) +
                              ",\"dst_device\":" + std::to_string((r.arg[3] & UINT32_MAX) - 1) + "}");
      break;
    case RingKind::graph:
      row.graph = static_cast<int64_t>(r.arg[0] >> 32);
      break;
    case RingKind::sync:
      if (r.stream != UINT32_MAX) row.stream = r.stream;
      break;
    default:
      if (r.arg[3]) row.tid = static_cast<int64_t>(r.arg[3]);
      break;
  }
  if (isDeviceType(type)) {
    row.device = r.device;
    row.stream = r.stream;
  }
  row.step = p.stepAt(r.start, isDeviceType(type));
  if (isDeviceType(type) || type == EventType::sync) row.context = context ? static_cast<int64_t>(context) : kNull;
  append(row);
}

void Collector::collectiveRow(Process& p, const Record& r, const Record* kernel) {
  if (!kernel && r.start < since_ns_) return;  // not of this recording
  ring::CollectiveInfo info;
  std::memcpy(&info, &r.arg[3], sizeof info);
  CollectiveRow row;
  if (kernel) {
    row.ts = static_cast<int64_t>(kernel->start);
    row.dur = static_cast<int64_t>(kernel->end - kernel->start);
    row.device = kernel->device;
    row.stream = kernel->stream;
    row.correlation = kernel->correlation;
    row.name = name(p, kernel->name);
  }
  row.step = p.stepAt(r.start, false);
  row.ts_enqueue = static_cast<int64_t>(r.start);
  row.op = writer_.string(ncclOpName(p.ring->string(r.name)));
  if (r.arg[0]) row.comm = writer_.string(ncclCommName(r.arg[0]));
  if (r.arg[1] != ring::kNoNumber) row.seq = static_cast<int64_t>(r.arg[1]);
  row.node = p.node;
  row.rank = p.rank();
  row.pid = p.pid();
  if (r.stream) row.group_rank = r.stream - 1;
  if (r.correlation) row.group_size = r.correlation;
  row.elements = static_cast<int64_t>(r.arg[2]);
  if (info.datatype < std::size(nccl::kDatatypes)) {
    row.bytes = ncclBytes(r.arg[2], info.datatype);
    std::string_view type = nccl::kDatatypes[info.datatype];
    if (info.datatype > 0) row.dtype = writer_.string(lower(type.substr(4)));
  }
  if (info.algo > 0 && info.algo < std::size(nccl::kAlgos)) row.algo = writer_.string(lower(nccl::kAlgos[info.algo]));
  if (info.proto > 0 && info.proto < std::size(nccl::kProtos)) row.proto = writer_.string(nccl::kProtos[info.proto]);
  if (info.channels) row.channels = info.channels;
  if (r.kind == RingKind::p2p)
    row.peer = orNull(static_cast<int16_t>(r.device));
  else if (row.op != kNull && info.root >= 0) {
    std::string_view function = p.ring->string(r.name);
    if (function == "Broadcast" || function == "Reduce") row.peer = info.root;
  }
  append(row);
  ++stats_.collectives;
}

void Collector::kernel(Process& p, const Record& r) {
  event(p, r, EventType::kernel);
  ++stats_.kernels;
  if (const int64_t step = sum_up_steps_ ? p.stepAt(r.start, true) : kNull; step != kNull) {
    StepStats& s = stats_.steps[step][p.ring->header().rank.load()];
    const bool nccl = isNcclKernel(p.ring->string(r.name));
    ++(nccl ? s.collectives : s.kernels);
    (nccl ? s.communicating_ns : s.computing_ns) += r.end - r.start;
  }
  p.nccl.kernel(
      r, [&](uint32_t id) { return p.ring->string(id); },
      [&](const NcclJoin::Operation& o, const Record* kernel) { collectiveRow(p, o.record, kernel); });
}

void Collector::take(Process& p, uint32_t lane, const Record& r) {
  auto tid = [&]() -> int64_t {
    auto it = p.lane_tids.find(lane);
    return it == p.lane_tids.end() ? kNull : it->second;
  };
  switch (r.kind) {
    case RingKind::kernel:
      return kernel(p, r);
    case RingKind::memcpy:
      return event(p, r, EventType::memcpy);
    case RingKind::memset:
      return event(p, r, EventType::memset);
    case RingKind::runtime:
      return event(p, r, EventType::runtime);
    case RingKind::driver:
      return event(p, r, EventType::driver);
    case RingKind::sync:
      return event(p, r, EventType::sync);
    case RingKind::overhead:
      return event(p, r, EventType::overhead);
    case RingKind::graph:
      return event(p, r, EventType::graph);
    case RingKind::thread:
      p.lane_tids[lane] = static_cast<int64_t>(r.arg[0]);
      return;
    case RingKind::range:
    case RingKind::mark: {
      EventRow row;
      row.ts = static_cast<int64_t>(r.start);
      if (r.kind == RingKind::range) row.dur = static_cast<int64_t>(r.end - r.start);
      row.type = static_cast<int64_t>(r.kind == RingKind::range ? EventType::annotation : EventType::marker);
      row.name = r.flags & ring::kNumbered ? writer_.string(p.ring->name(r)) : name(p, r.name);
      row.node = p.node;
      row.rank = p.rank();
      row.pid = p.pid();
      row.tid = r.arg[3] ? static_cast<int64_t>(r.arg[3]) : tid();
      row.step = p.stepAt(r.start, false);
      if (std::string_view domain = p.ring->string(static_cast<uint32_t>(r.arg[0])); !domain.empty()) {
        std::string args = "{\"domain\":";
        appendJsonString(args, domain);
        row.args = out_->text(args + "}");
      }
      append(row);
      return;
    }
    case RingKind::step: {
      if (r.end == 0) {
        p.steps.push_back({static_cast<int64_t>(r.arg[0]), r.start, 0});
        if (p.steps.size() > kSteps) p.steps.pop_front();
        return;
      }
      for (Process::Step& step : p.steps)
        if (step.start == r.start) step.end = r.end;
      StepRow row;
      row.ts = static_cast<int64_t>(r.start);
      row.dur = static_cast<int64_t>(r.end - r.start);
      row.node = p.node;
      row.rank = p.rank();
      row.pid = p.pid();
      row.step = static_cast<int64_t>(r.arg[0]);
      append(row);
      if (sum_up_steps_) stats_.steps[row.step][p.ring->header().rank.load()].ns = r.end - r.start;
      return;
    }
    case RingKind::counter: {
      CounterRow row;
      row.ts = static_cast<int64_t>(r.start);
      row.node = p.node;
      row.rank = p.rank();
      row.pid = p.pid();
      row.name = name(p, r.name);
      row.value = real(std::bit_cast<double>(r.arg[0]));
      append(row);
      return;
    }
    case RingKind::metadata: {
      MetadataRow row;
      row.node = p.node;
      row.rank = p.rank();
      row.key = name(p, r.name);
      row.value = out_->text(p.ring->string(static_cast<uint32_t>(r.arg[0])));
      append(row);
      return;
    }
    case RingKind::comm: {
      GroupRow row;
      row.node = p.node;
      row.rank = p.rank();
      row.comm = writer_.string(ncclCommName(r.arg[0]));
      row.description = name(p, r.name);
      row.backend = writer_.string("nccl");
      row.size = static_cast<int64_t>(r.arg[1] >> 32);
      append(row);
      return;
    }
    case RingKind::nccl_launch:
      return p.nccl.launch(lane, r);
    case RingKind::gpu_on:
      p.nccl.gpu_on_ns = r.start;
      return;
    case RingKind::collective:
    case RingKind::p2p:
      return p.nccl.operation(
          lane, r, tid(), [&](const NcclJoin::Operation& o, const Record*) { collectiveRow(p, o.record, nullptr); });
    case RingKind::proxy_op: {
      ProxyOpRow row;
      row.ts = static_cast<int64_t>(r.start);
      row.dur = static_cast<int64_t>(r.end - r.start);
      row.node = p.node;
      row.rank = p.rank();
      row.pid = p.pid();
      if (r.arg[0]) row.comm = writer_.string(ncclCommName(r.arg[0]));
      row.channel = static_cast<int64_t>(r.arg[1] & 0xff);
      row.peer = static_cast<int32_t>(r.arg[1] >> 32);
      row.direction = writer_.string(r.arg[3] >> 32 ? "send" : "recv");
      row.steps = static_cast<int64_t>(r.arg[3] & 0xffffffff);
      append(row);
      return;
    }
    default:
      break;
  }
}

void Collector::processRow(const Process& p) {
  const ring::RingHeader& h = p.ring->header();
  ProcessRow row;
  row.node = p.node;
  row.pid = p.pid();
  row.rank = p.rank();
  row.world_size = orNull(h.world_size.load());
  row.local_rank = orNull(h.local_rank.load());
  std::string_view command(h.command, ::strnlen(h.command, sizeof h.command));
  std::string_view program = command.substr(0, command.find(' '));
  row.name = writer_.string(h.simulated ? "simulated" : program.substr(program.rfind('/') + 1));
  row.command = out_->text(command);
  row.ts_start = static_cast<int64_t>(h.start_ns);
  if (h.simulated) row.args = out_->text("{\"simulated\":true}");
  append(row);
  if (h.simulated) {
    DeviceRow device;
    device.node = p.node;
    device.device = orNull(h.local_rank.load());
    device.name = writer_.string("Simulated H100");
    device.vendor = writer_.string("simulated");
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
  if (h.simulated) node.os = writer_.string("simulated");
  append(node);
}

void Collector::lossRows(Process& p) {
  const ring::RingHeader& h = p.ring->header();
  auto tell = [&](const char* cause, uint64_t count, uint64_t& told) {
    if (count <= told) return;
    LossRow loss;
    loss.node = p.node;
    loss.rank = p.rank();
    loss.pid = p.pid();
    loss.cause = writer_.string(cause);
    loss.count = static_cast<int64_t>(count - told);
    append(loss);
    stats_.losses += count - told;
    told = count;
  };
  for (uint32_t cause = 0; cause < ring::kLossCauses; ++cause)
    tell(ring::kLossNames[cause], h.losses[cause].load(), p.losses_told[cause]);
  tell("overwritten", p.skipped, p.skipped_told);
  if (p.ring->cut() && !std::exchange(p.cut_told, true)) {
    LossRow loss;  // how many nobody knows
    loss.node = p.node;
    loss.rank = p.rank();
    loss.pid = p.pid();
    loss.cause = writer_.string("ring cut short");
    loss.detail = out_->text("somebody truncated " + p.ring->path());
    append(loss);
    ++stats_.losses;
  }
}

/// Launched and not seen to end: in flight when the recording stopped, or waiting for a rank that never came.
void Collector::giveUpInFlight() {
  for (auto& p : processes_) {
    const uint64_t before = stats_.collectives;
    p->nccl.giveUp([&](const NcclJoin::Operation& o, const Record*) { collectiveRow(*p, o.record, nullptr); });
    if (stats_.collectives > before) {  // until when they were waited for, if nothing else happens any more
      EventRow end;
      end.ts = rawClock();
      end.type = static_cast<int64_t>(EventType::marker);
      end.name = writer_.string("recording ends, operations in flight");
      end.node = p->node;
      end.rank = p->rank();
      end.pid = p->pid();
      append(end);
    }
    p->nccl.launches.clear();
  }
}

Status Collector::finish() {
  giveUpInFlight();
  for (auto& p : processes_) {
    processRow(*p);
    lossRows(*p);
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
