// One record of a ring into one row.
#include <cxxabi.h>

#include <cstdlib>

#include "base/text.hpp"
#include "capture/collect/in_flight.hpp"
#include "capture/collect/process.hpp"
#include "model/communication.hpp"
#include "model/coverage.hpp"
#include "model/operation.hpp"
#include "model/ring/nccl_names.hpp"

namespace tracesmith::capture {

using namespace tracesmith::trace;
using ring::Record;
using RingKind = ring::Kind;

namespace {

constexpr const char* kHidden = "not recorded";
constexpr size_t kSteps = 64;  // of a process, to tell which one a row belongs to

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// CUPTI reports mangled names of kernels; people know them by their C++ names.
std::string demangled(std::string_view name) {
  std::string text(name);
  if (!name.starts_with("_Z")) return text;
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> readable(abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status),
                                                  std::free);
  return status == 0 && readable ? readable.get() : text;
}

int64_t nonzero(uint64_t v) { return v ? static_cast<int64_t>(v) : kNull; }
int64_t measured(uint64_t v) { return v == ring::kUnknown ? kNull : static_cast<int64_t>(v); }

/// Where and when, for any table.
template <typename Row, typename Process>
Row rowOf(const Process& p, uint64_t start, uint64_t end) {
  Row row;
  row.ts = static_cast<int64_t>(start);
  row.dur = static_cast<int64_t>(end - start);
  row.node = p.node;
  row.rank = p.rank();
  row.pid = p.pid();
  return row;
}

}  // namespace

int64_t Collector::name(Process& p, uint32_t id) {
  if (id == 0) return kNull;
  auto [it, fresh] = p.names.try_emplace(id, kNull);
  if (fresh) {
    std::string_view text = p.ring->string(id);
    if (text.data()) it->second = writer_.string(demangled(text));
  }
  return it->second;
}

EventRow Collector::eventRow(Process& p, const Record& r, EventType type) {
  auto row = rowOf<EventRow>(p, r.start, r.end);
  row.type = static_cast<int64_t>(type);
  row.name = name(p, r.name);
  row.correlation = nonzero(r.correlation);
  row.step = p.stepAt(r.start, isDeviceType(type));
  return row;
}

void Collector::deviceRow(const Record& r, uint32_t context, EventRow& row) {
  row.device = r.device;
  row.stream = r.stream;
  row.context = nonzero(context);
  append(row);
}

void Collector::copyRow(Process& p, const Record& r) {
  const ring::CopyRecord c = copyOf(r);
  EventRow row = eventRow(p, r, c.set ? EventType::memset : EventType::memcpy);
  row.bytes = static_cast<int64_t>(c.bytes);
  row.graph = nonzero(c.graph);
  row.graph_node = nonzero(c.graph_node);
  if (c.from != ring::kNoDevice)
    row.args =
        out_->text("{\"src_device\":" + std::to_string(c.from) + ",\"dst_device\":" + std::to_string(c.to) + "}");
  deviceRow(r, c.context, row);
}

void Collector::collectiveRow(Process& p, const NcclOperation& operation, const ring::KernelRecord* kernel) {
  const ring::OperationRecord& o = operation.record;
  const ring::LaunchTimeRecord* time = kernel || operation.hidden || o.captured ? nullptr : p.times.of(o);
  if ((kernel ? kernel->end : time ? time->end : o.start) < since_ns_) return;  // not of this recording
  CollectiveRow row;
  if (time) {
    row.ts = static_cast<int64_t>(time->start);
    row.dur = static_cast<int64_t>(time->end - time->start);
    row.name = writer_.string(kTimedByEvents);  // it is no kernel's time
    row.args = out_->text("{\"event_bound_ns\":" + std::to_string(time->bound) + "}");
  }
  // One that has a name and no times ran, and nobody knows when; one that has neither is in flight.
  if (operation.hidden && !kernel) row.name = writer_.string(kHidden);
  if (kernel) {
    if (!operation.hidden) {
      row.ts = static_cast<int64_t>(kernel->start);
      row.dur = static_cast<int64_t>(kernel->end - kernel->start);
    }
    row.device = kernel->device;
    row.stream = kernel->stream;
    row.correlation = kernel->correlation;
    row.name = name(p, kernel->name);
  }
  const std::string_view function = p.ring->string(o.function);
  if (o.start != ring::kUnknown) {
    row.step = p.stepAt(o.start, false);
    row.ts_enqueue = static_cast<int64_t>(o.start);
  } else if (kernel) {
    row.step = p.stepAt(kernel->start, true);
  }
  const model::OpKind op = model::opKindOf(function);
  row.op = writer_.string(model::opNameOf(function));
  if (o.comm) row.comm = writer_.string(ncclCommName(o.comm));
  row.seq = o.captured ? kNull : measured(o.sequence);  // one number, any number of replays
  row.nccl_seq = measured(o.nccl_sequence);
  row.node = p.node;
  row.rank = p.rank();
  row.pid = p.pid();
  if (o.rank >= 0) row.group_rank = o.rank;
  row.group_size = nonzero(o.ranks);
  row.elements = measured(o.elements);
  if (o.elements != ring::kUnknown && o.datatype < std::size(nccl::kDatatypes)) {
    row.bytes = model::messageBytes(op, nccl::bytesOf(o), o.ranks);
    std::string_view type = nccl::kDatatypes[o.datatype];
    if (o.datatype > 0) row.dtype = writer_.string(lower(type.substr(4)));
  }
  if (o.algo > 0 && o.algo < std::size(nccl::kAlgos)) row.algo = writer_.string(lower(nccl::kAlgos[o.algo]));
  if (o.proto > 0 && o.proto < std::size(nccl::kProtos)) row.proto = writer_.string(nccl::kProtos[o.proto]);
  row.channels = nonzero(o.channels);
  if (o.pair) {
    if (o.peer >= 0) row.peer = o.peer;
  } else if (o.root >= 0 && isRooted(op)) {
    row.peer = o.root;
  }
  append(row);
  ++stats_.collectives;
}

void Collector::kernel(Process& p, const Record& r) {
  const ring::KernelRecord k = kernelOf(r);
  EventRow row = eventRow(p, r, EventType::kernel);
  row.launch = name(p, k.launch);
  row.graph = nonzero(k.graph);
  row.graph_node = nonzero(k.graph_node);
  deviceRow(r, k.context, row);
  ++stats_.kernels;
  if (sum_up_steps_ && row.step != kNull) {
    StepStats& s = stats_.steps[row.step][p.ring->header().rank.load()];
    const bool communicates = model::isCommunication(p.ring->string(k.name));
    ++(communicates ? s.collectives : s.kernels);
    (communicates ? s.communicating_ns : s.computing_ns) += k.end - k.start;
  }
}

void Collector::rangeRow(Process& p, const ring::RangeRecord& range, int64_t lane_tid) {
  auto row = rowOf<EventRow>(p, range.start, range.end);
  if (range.mark) row.dur = kNull;
  row.type = static_cast<int64_t>(range.mark ? EventType::marker : EventType::annotation);
  row.name = range.name.numbered ? writer_.string(p.ring->text(range.name)) : name(p, range.name.id);
  row.tid = range.thread ? range.thread : lane_tid;
  row.step = p.stepAt(range.start, false);
  if (std::string_view domain = p.ring->string(range.domain); !domain.empty()) {
    std::string args = "{\"domain\":";
    appendJsonString(args, domain);
    row.args = out_->text(args + "}");
  }
  append(row);
}

void Collector::stepRow(Process& p, const ring::StepRecord& s) {
  if (s.end == 0) {
    p.steps.push_back({s.step, s.start, 0});
    if (p.steps.size() > kSteps) p.steps.pop_front();
    return;
  }
  for (Process::Step& step : p.steps)
    if (step.start == s.start) step.end = s.end;
  if (s.end == s.start) return;  // it was none
  auto row = rowOf<StepRow>(p, s.start, s.end);
  row.step = s.step;
  append(row);
  if (sum_up_steps_) stats_.steps[s.step][p.ring->header().rank.load()].ns = s.end - s.start;
}

/// From then on the GPU's work is, or is not, in the trace: such a gap is not idle time.
void Collector::gpuRow(Process& p, bool on, uint64_t ns) {
  auto row = rowOf<EventRow>(p, ns, ns);
  row.dur = kNull;
  row.type = static_cast<int64_t>(EventType::marker);
  row.name = writer_.string(on ? model::kGpuOn : model::kGpuOff);
  append(row);
}

void Collector::proxyRow(Process& p, const ring::ProxyRecord& op) {
  auto row = rowOf<ProxyOpRow>(p, op.start, op.end);
  if (op.comm) row.comm = writer_.string(ncclCommName(op.comm));
  row.channel = op.channel;
  if (op.peer >= 0) row.peer = op.peer;
  row.direction = writer_.string(op.send ? "send" : "recv");
  row.bytes = measured(op.bytes);
  row.steps = op.steps;
  row.gpu_wait = measured(op.gpu_wait);
  row.peer_wait = measured(op.peer_wait);
  row.net_wait = measured(op.net_wait);
  append(row);
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
    case RingKind::memset:
      return copyRow(p, r);
    case RingKind::runtime:
    case RingKind::driver: {
      EventRow row = eventRow(p, r, r.kind == RingKind::runtime ? EventType::runtime : EventType::driver);
      row.tid = nonzero(callOf(r).thread);
      return append(row);
    }
    case RingKind::sync: {
      const ring::SyncRecord s = syncOf(r);
      EventRow row = eventRow(p, r, EventType::sync);
      if (s.stream != ring::kNoStream) row.stream = s.stream;
      row.context = nonzero(s.context);
      row.tid = nonzero(s.thread);
      return append(row);
    }
    case RingKind::overhead: {
      EventRow row = eventRow(p, r, EventType::overhead);
      row.tid = nonzero(overheadOf(r).thread);
      return append(row);
    }
    case RingKind::graph: {
      const ring::GraphRecord g = graphOf(r);
      EventRow row = eventRow(p, r, EventType::graph);
      row.graph = g.graph;
      return deviceRow(r, g.context, row);
    }
    case RingKind::thread:
      p.lane_tids[lane] = threadOf(r).thread;
      return;
    case RingKind::range:
    case RingKind::mark:
      return rangeRow(p, rangeOf(r), tid());
    case RingKind::step:
      return stepRow(p, stepOf(r));
    case RingKind::counter: {
      const ring::CounterRecord c = counterOf(r);
      CounterRow row;
      row.ts = static_cast<int64_t>(c.start);
      row.node = p.node;
      row.rank = p.rank();
      row.pid = p.pid();
      row.name = name(p, c.name);
      row.series = name(p, c.series);
      row.value = real(c.value);
      row.step = c.step >= 0 ? c.step : p.stepAt(c.start, false);
      return append(row);
    }
    case RingKind::metadata: {
      const ring::MetadataRecord m = metadataOf(r);
      MetadataRow row;
      row.node = p.node;
      row.rank = p.rank();
      row.key = name(p, m.key);
      row.value = out_->text(p.ring->string(m.value));
      return append(row);
    }
    case RingKind::comm: {
      const ring::CommRecord c = commOf(r);
      GroupRow row;
      row.node = p.node;
      row.rank = p.rank();
      row.comm = writer_.string(ncclCommName(c.hash));
      row.description = name(p, c.name);
      row.backend = writer_.string("nccl");
      row.size = c.ranks;
      return append(row);
    }
    case RingKind::process_group:
      return processGroupRow(p, processGroupOf(r));
    case RingKind::graph_node:
      return graphNodeRow(p, graphNodeOf(r));
    case RingKind::proxy_op:
      return proxyRow(p, proxyOf(r));
    case RingKind::nccl_launch:  // joins() knows what they are for
    case RingKind::nccl_time:
    case RingKind::host_operation:
    case RingKind::nccl_group:  // for NCCLTracker
    case RingKind::gpu_on:
    case RingKind::gpu_off:
    case RingKind::collective:
    case RingKind::p2p:
    case RingKind::none:
      break;
  }
}

}  // namespace tracesmith::capture
