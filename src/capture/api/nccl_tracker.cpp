#include "tracesmith/capture/nccl_tracker.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "capture/api/call_stack.hpp"
#include "capture/api/ring_source.hpp"
#include "capture/collect/nccl_join.hpp"
#include "model/operation.hpp"
#include "model/ring/nccl_names.hpp"

namespace tracesmith::cluster {

using capture::NcclJoin;
using model::OpKind;
using ring::Kind;
using ring::Record;

namespace {

constexpr uint64_t kHoldNs = 300'000'000;  // CUPTI hands kernels over every 100 ms

/// In the order of NCCLOpType; groups are not operations.
constexpr OpKind kKinds[] = {OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter, OpKind::broadcast,
                             OpKind::reduce,     OpKind::all_to_all, OpKind::send,           OpKind::recv};

NCCLOpType opType(OpKind kind) {
  const auto* found = std::find(std::begin(kKinds), std::end(kKinds), kind);
  return found == std::end(kKinds) ? NCCLOpType::Unknown : static_cast<NCCLOpType>(found - std::begin(kKinds));
}

OpKind kindOf(NCCLOpType type) {
  return static_cast<size_t>(type) < std::size(kKinds) ? kKinds[static_cast<size_t>(type)] : OpKind::other;
}

NCCLRedOp redOp(std::string_view kernel) {
  constexpr std::pair<std::string_view, NCCLRedOp> kOps[] = {
      {"_Sum_", NCCLRedOp::Sum},       {"_Prod_", NCCLRedOp::Prod}, {"_MinMax_", NCCLRedOp::Unknown},
      {"_Max_", NCCLRedOp::Max},       {"_Min_", NCCLRedOp::Min},   {"_Avg_", NCCLRedOp::Avg},
      {"_SumPostDiv_", NCCLRedOp::Avg}};
  for (const auto& [text, op] : kOps)
    if (kernel.find(text) != std::string_view::npos) return op;
  return NCCLRedOp::Unknown;
}

}  // namespace

const char* ncclOpName(NCCLOpType type) {
  switch (type) {
    case NCCLOpType::GroupStart:
      return "GroupStart";
    case NCCLOpType::GroupEnd:
      return "GroupEnd";
    case NCCLOpType::AllToAll:
      return "AllToAll";  // as the type is called; NCCL's function is ncclAlltoAll
    default:
      return model::ncclFunction(kindOf(type));
  }
}

const char* operationName(NCCLOpType type) { return model::opName(kindOf(type)); }

struct NCCLTracker::Impl {
  NCCLTrackerConfig config;
  std::unique_ptr<capture::RingSource> source;
  mutable std::mutex poll_mutex;                           // guards source to stacks: one thread polls at a time
  std::vector<NcclJoin> joins;                             // by ring
  std::map<std::pair<size_t, uint32_t>, int64_t> threads;  // by ring and lane
  mutable capture::CallStacks stacks;
  mutable std::mutex mutex;                // guards what follows
  std::deque<NCCLOperation> done, groups;  // the last ones
  uint64_t dropped = 0;
  Statistics statistics;
  OperationCallback callback;
  Status last;
  std::thread thread;
  std::condition_variable wake;
  bool stop = false;

  bool wanted(uint64_t comm) const {
    return config.comm_filter.empty() ? config.track_all_comms : std::ranges::count(config.comm_filter, comm) > 0;
  }

  bool fail(Status why) {
    std::lock_guard lock(mutex);
    last = std::move(why);
    return false;
  }

  static NCCLOperation groupCall(const ring::GroupRecord& r) {
    NCCLOperation o;
    o.op_type = r.ended ? NCCLOpType::GroupEnd : NCCLOpType::GroupStart;
    o.group_id = r.number;
    o.enqueue_time = r.start;
    return o;
  }

  NCCLOperation operation(size_t ring, const NcclJoin::Operation& joined, const ring::KernelRecord* kernel) const {
    const ring::OperationRecord& r = joined.record;
    NCCLOperation o;
    if (joined.group) o.group_id = joined.group;
    if (r.stack) o.call_stack = stacks.find(source->string(ring, r.stack));
    const OpKind kind = model::opKindOf(source->string(ring, r.function));
    o.op_id = r.sequence;
    if (r.nccl_sequence != ring::kUnknown) o.nccl_seq = r.nccl_sequence;
    o.op_type = opType(kind);
    o.comm_id = r.comm;
    o.rank = r.rank < 0 ? 0 : static_cast<uint32_t>(r.rank);
    o.world_size = r.ranks;
    o.count = r.elements;
    o.data_size = static_cast<size_t>(model::messageBytes(kind, nccl::bytesOf(r), r.ranks));
    // The ring's list begins with "unknown" and continues in our order.
    o.data_type = r.datatype == 0 || r.datatype > static_cast<uint16_t>(NCCLDataType::Unknown)
                      ? NCCLDataType::Unknown
                      : static_cast<NCCLDataType>(r.datatype - 1);
    if (r.algo > 0 && r.algo < std::size(nccl::kAlgos))
      for (const char* c = nccl::kAlgos[r.algo]; *c; ++c)
        o.algo += static_cast<char>(*c >= 'A' && *c <= 'Z' ? *c | 32 : *c);
    o.enqueue_time = r.start;
    o.simulated = source->simulated();
    if (const int32_t peer = r.pair ? r.peer : isRooted(kind) ? r.root : -1; peer >= 0) o.peer_rank = peer;
    if (!kernel) return o;
    o.start_time = kernel->start;
    o.end_time = kernel->end;
    o.duration_ns = kernel->end - kernel->start;
    o.cuda_stream = kernel->stream;
    o.device_id = kernel->device;
    o.correlation_id = kernel->correlation;
    o.red_op = redOp(source->string(ring, kernel->name));
    if (const auto speed = model::bandwidthOf(kind, static_cast<int64_t>(o.data_size), o.world_size,
                                              static_cast<int64_t>(o.duration_ns))) {
      o.algbw_gbps = speed->algorithm_gbps;
      o.busbw_gbps = speed->bus_gbps;
    }
    return o;
  }

  /// `all`: nothing more will come.
  void poll(bool all = false) {
    std::vector<NCCLOperation> fresh, calls;
    OperationCallback tell;
    {
      std::lock_guard reading(poll_mutex);
      if (!source) return;
      std::vector<NcclJoin::Done> finished;
      std::vector<NcclJoin::Text> text;
      for (size_t ring = 0; ring < joins.size(); ++ring) {
        finished.push_back([&, ring](const NcclJoin::Operation& o, const ring::KernelRecord* kernel) {
          // Without a kernel (a lost record, a graph as a whole) nothing is known of when it ran: it is done, and not
          // kept. What was captured where launches of graphs are not seen has no number.
          if (kernel && !o.hidden && !o.record.captured && wanted(o.record.comm))
            fresh.push_back(operation(ring, o, kernel));
        });
        text.push_back([&, ring](uint32_t id) { return source->string(ring, id); });
      }
      const uint64_t now = rawClock();
      source->poll([&](size_t ring, uint32_t lane, const Record& r) {
        NcclJoin& join = joins[ring];
        if (r.kind == Kind::thread)
          threads[{ring, lane}] = threadOf(r).thread;
        else if (r.kind == Kind::nccl_launch)
          join.launch(lane, launchOf(r), threads[{ring, lane}], finished[ring]);
        else if (r.kind == Kind::nccl_group)
          calls.push_back(groupCall(ring::groupOf(r)));
        else if (isOperation(r.kind))
          join.operation(lane, operationOf(r), 0, finished[ring]);
        else if (r.kind == Kind::runtime || r.kind == Kind::driver)
          join.call(callOf(r), text[ring], finished[ring]);
        else if (r.kind == Kind::gpu_on || r.kind == Kind::gpu_off)
          join.gpu(gpuOnOf(r), text[ring], finished[ring]);
        else if (r.kind == Kind::kernel)
          join.kernel(kernelOf(r), now, text[ring], finished[ring]);
        else if (r.kind == Kind::graph)
          join.graph(graphOf(r), now);
        else if (r.kind == Kind::memcpy)
          join.copy(copyOf(r), now);
      });
      for (size_t ring = 0; ring < joins.size(); ++ring)
        joins[ring].pass(all ? UINT64_MAX : now, text[ring], finished[ring]);
      std::lock_guard lock(mutex);
      for (const NCCLOperation& o : fresh) {
        ++statistics.total_operations;
        ++statistics.ops_by_type[o.op_type];
        statistics.total_bytes_transferred += o.data_size;
        statistics.bytes_by_type[o.op_type] += o.data_size;
        statistics.total_duration_ns += o.duration_ns;
        statistics.duration_by_type[o.op_type] += o.duration_ns;
        dropped += keep(done, o);
      }
      for (const NCCLOperation& o : calls) (void)keep(groups, o);
      tell = callback;
    }
    if (tell)
      for (const NCCLOperation& o : fresh) tell(o);
  }

  /// Whether an older one was dropped.
  bool keep(std::deque<NCCLOperation>& list, const NCCLOperation& o) const {
    list.push_back(o);
    if (list.size() <= config.max_operations) return false;
    list.pop_front();
    return true;
  }

  void loop() {
    std::unique_lock lock(mutex);
    while (
        !wake.wait_for(lock, std::chrono::milliseconds(std::max(1u, config.poll_interval_ms)), [&] { return stop; })) {
      lock.unlock();
      poll();
      lock.lock();
    }
  }

  void endLoop() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    if (thread.joinable()) thread.join();
    stop = false;
  }
};

NCCLTracker::NCCLTracker(const NCCLTrackerConfig& config) : impl_(std::make_unique<Impl>()) { impl_->config = config; }
NCCLTracker::~NCCLTracker() { removeHooks(); }

Status NCCLTracker::lastStatus() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->last;
}

bool NCCLTracker::installHooks() {
  const NCCLTrackerConfig& config = impl_->config;
  if (!config.hook_enabled) return impl_->fail(Status::invalid("hook_enabled is false"));
  if (isHooked()) return true;
  if (config.platform == PlatformType::CUDA)
    if (Status s = capture::RingSource::hookNccl(); !s) return impl_->fail(s);
  uint32_t wants = ring::kWantGroups;
  if (config.capture_call_stack) wants |= ring::kWantCallStacks;
  Result<std::unique_ptr<capture::RingSource>> source =
      capture::RingSource::open(config.platform, config.profiler, wants);
  if (!source) return impl_->fail(source.status());
  std::lock_guard reading(impl_->poll_mutex);
  impl_->source = std::move(*source);
  impl_->joins.resize(impl_->source->rings());
  for (NcclJoin& join : impl_->joins) join.hold_ns = kHoldNs;
  return true;
}

void NCCLTracker::removeHooks() {
  stopCapture();
  std::lock_guard reading(impl_->poll_mutex);
  impl_->source.reset();
  impl_->joins.clear();
  impl_->threads.clear();
}

bool NCCLTracker::isHooked() const {
  std::lock_guard reading(impl_->poll_mutex);
  return impl_->source != nullptr;
}

void NCCLTracker::startCapture() {
  {
    std::lock_guard reading(impl_->poll_mutex);
    if (!impl_->source) {
      (void)impl_->fail(Status::invalid("not hooked: call installHooks() first"));
      return;
    }
    if (impl_->source->recording()) return;
    impl_->source->setRecording(true);
  }
  impl_->thread = std::thread([this] { impl_->loop(); });
}

void NCCLTracker::stopCapture() {
  {
    std::lock_guard reading(impl_->poll_mutex);
    if (!impl_->source || !impl_->source->recording()) return;
    impl_->source->setRecording(false);
  }
  impl_->endLoop();
  impl_->poll(true);
}

void NCCLTracker::clear() {
  std::lock_guard lock(impl_->mutex);
  impl_->done.clear();
  impl_->groups.clear();
  impl_->statistics = {};
  impl_->dropped = 0;
}

std::vector<NCCLOperation> NCCLTracker::getInFlight() const {
  std::lock_guard reading(impl_->poll_mutex);
  std::vector<NCCLOperation> all;
  for (size_t ring = 0; ring < impl_->joins.size(); ++ring) {
    auto add = [&](const NcclJoin::Operation& o, uint32_t stream) {
      if (!impl_->wanted(o.record.comm)) return;
      all.push_back(impl_->operation(ring, o, nullptr));
      all.back().in_flight = true;
      all.back().cuda_stream = stream;
    };
    const NcclJoin& join = impl_->joins[ring];
    for (const auto& [id, stream] : join.streams)
      for (const NcclJoin::Launch* launch : join.inFlight(stream, id))
        for (const NcclJoin::Operation& o : launch->operations) add(o, id);
    for (const capture::GraphJoin::InFlight& f :
         join.replaysInFlight([&](uint32_t id) { return impl_->source->string(ring, id); }))
      add(*f.operation, f.stream);
  }
  return all;
}

std::vector<NCCLOperation> NCCLTracker::getOperations() const {
  impl_->poll();
  std::vector<NCCLOperation> all;
  {
    std::lock_guard lock(impl_->mutex);
    all.assign(impl_->done.begin(), impl_->done.end());
  }
  std::vector<NCCLOperation> pending = getInFlight();
  all.insert(all.end(), pending.begin(), pending.end());
  return all;
}

std::vector<NCCLOperation> NCCLTracker::getOperationsByType(NCCLOpType type) const {
  std::vector<NCCLOperation> all = getOperations();
  if (type == NCCLOpType::GroupStart || type == NCCLOpType::GroupEnd) {
    std::lock_guard lock(impl_->mutex);
    all.assign(impl_->groups.begin(), impl_->groups.end());
  }
  std::erase_if(all, [&](const NCCLOperation& o) { return o.op_type != type; });
  return all;
}

std::vector<NCCLOperation> NCCLTracker::getOperationsByComm(uint64_t comm) const {
  std::vector<NCCLOperation> all = getOperations();
  std::erase_if(all, [&](const NCCLOperation& o) { return o.comm_id != comm; });
  return all;
}

uint64_t NCCLTracker::operationsDropped() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->dropped;
}

NCCLTracker::Statistics NCCLTracker::getStatistics() const {
  impl_->poll();
  std::lock_guard lock(impl_->mutex);
  return impl_->statistics;
}

void NCCLTracker::setOperationCallback(OperationCallback callback) {
  std::lock_guard lock(impl_->mutex);
  impl_->callback = std::move(callback);
}

}  // namespace tracesmith::cluster
