#include "capture/collect/nccl_join.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "model/communication.hpp"
#include "model/operation.hpp"

namespace tracesmith::capture {

using model::OpKind;
using ring::CallRecord;
using ring::KernelRecord;
using ring::LaunchRecord;
using ring::OperationRecord;

namespace {

constexpr uint64_t kKeepCallsNs = 10'000'000;  // a call may be read this long before the launch around it
constexpr size_t kMostCalls = 65536, kMostUntold = 1024;
// A ring is its user's word. CUDA queues some thousand launches, and CUPTI tells of kernels some seconds later.
constexpr size_t kMostLaunches = 16384, kMostStreams = 256, kMostNames = 65536;

bool contains(const NcclJoin::Launch& launch, const CallRecord& call) {
  return launch.start <= call.start && call.end <= launch.end && (launch.tid == 0 || launch.tid == call.thread);
}

bool cached(std::unordered_map<uint32_t, bool>& known, uint32_t id, const std::function<bool()>& ask) {
  if (known.size() > kMostNames) known.clear();
  auto [it, fresh] = known.try_emplace(id, false);
  if (fresh) it->second = ask();
  return it->second;
}

}  // namespace

bool fits(const std::vector<NcclOperation>& operations, std::string_view kernel, const RingText& text) {
  const OpKind op = model::opKindOf(model::kernelWords(kernel).function);
  if (op == OpKind::other || operations.empty()) return true;
  return std::any_of(operations.begin(), operations.end(), [&](const NcclOperation& o) {
    const OpKind called = o.record.pair ? OpKind::send_recv : model::opKindOf(text(o.record.function));
    // NCCL runs what it has no kernel for as sends and receives.
    const bool as_pairs = called == OpKind::all_to_all || called == OpKind::gather || called == OpKind::scatter;
    return op == (as_pairs ? OpKind::send_recv : called);
  });
}

void NcclJoin::drop(Launch& launch, bool is_lost, const Done& done) {
  if (launch.copies && copies_waiting > 0) --copies_waiting;
  if (launch.copies && is_lost) return hide(launch, done);
  if (is_lost && launch.start >= counted_from) lost += launch.operations.size();
  for (const Operation& o : launch.operations) done(o, nullptr);
}

void NcclJoin::launch(uint32_t lane, const LaunchRecord& r, int64_t tid, const Done& done) {
  if (r.captured || r.graph) {  // no kernel was launched
    lanes[lane] = {r.stream, r.start, {}, r.captured, r.graph, r.group};
    if (r.graph) graphs.launch(lane, r, tid, now_);
    return;
  }
  first_launch_ = std::min(first_launch_, r.start);
  const uint32_t id = streams.size() < kMostStreams || streams.contains(r.stream) ? r.stream : 0;
  lanes[lane] = {id, r.start, {}, false, false, r.group};
  // Lanes are read one after the other.
  std::deque<Launch>& queue = streams[id].launches;
  if (queue.size() >= kMostLaunches) {
    drop(queue.front(), true, done);
    queue.pop_front();
  }
  auto at = queue.end();
  while (at != queue.begin() && std::prev(at)->start > r.start) --at;
  Launch fresh{r.start, r.end, lane, tid, {}, {}, now_, r.copies, {}, 0, r.group};
  takeEarly(fresh);
  copies_waiting += r.copies;
  queue.insert(at, fresh);
  for (auto call = calls.begin(); call != calls.end();)
    call = contains(fresh, *call) && joinCall(*call, done) ? calls.erase(call) : std::next(call);
}

void NcclJoin::operation(uint32_t lane, const OperationRecord& r, int64_t tid, const Done& done) {
  auto last = lanes.find(lane);
  if (r.captured) {
    capture({r, tid});
    // A replay is reported on a thread of CUDA's, which launches nothing.
    if (last == lanes.end() || !last->second.captured) operationAlone(kGraphs, lane, {r, tid}, done);
    return;
  }
  if (last != lanes.end() && last->second.graph && r.start == last->second.launch_start)
    return graphs.operation(lane, r, tid);
  const bool here = last != lanes.end() && isOf(last->second.group, r.group);
  if (here) {
    const Operation known{r, tid, false, last->second.group};
    if (auto stream = streams.find(last->second.stream); stream != streams.end())
      for (Launch& l : stream->second.launches)
        if (l.lane == lane && l.start == last->second.launch_start) return l.operations.push_back(known);
    if (last->second.kernel) return done(known, &*last->second.kernel);
  }
  if (!here && r.group != 0) return operationElsewhere(lane, {r, tid}, done);
  // Without a launch before it (NCCL before 2.28) an operation stands for itself.
  operationAlone(0, lane, {r, tid}, done);
}

void NcclJoin::capture(const Operation& o) {
  constexpr size_t kMost = 256;
  auto same = [&](const Operation& c) {
    return c.record.function == o.record.function && c.record.comm == o.record.comm &&
           c.record.elements == o.record.elements && c.record.peer == o.record.peer;
  };
  if (captured.size() < kMost && std::none_of(captured.begin(), captured.end(), same)) captured.push_back(o);
}

/// What all captured operations that fit this kernel have in common.
bool NcclJoin::joinReplay(const KernelRecord& r, const Text& text, const Done& done) {
  std::optional<Operation> known;
  for (const Operation& c : captured) {
    if (!fits({c}, text(r.name), text)) continue;
    if (!known) {
      known = c;
      known->record.start = known->record.sequence = known->record.nccl_sequence = ring::kUnknown;
      continue;
    }
    OperationRecord& k = known->record;
    if (k.pair || k.function != c.record.function) return false;  // a send, a receive, or both
    if (k.comm != c.record.comm) k.comm = 0, k.rank = -1, k.ranks = 0;
    if (k.elements != c.record.elements) k.elements = ring::kUnknown;
    if (k.datatype != c.record.datatype) k.datatype = 0;
    if (k.root != c.record.root) k.root = -1;
    k.algo = k.proto = 0;
    k.channels = 0;
  }
  if (known) done(*known, &r);
  return known.has_value();
}

void NcclJoin::join(Stream& stream, size_t index, const KernelRecord& kernel, uint64_t now, const Done& done) {
  Launch launch = std::move(stream.launches[index]);
  stream.launches.erase(stream.launches.begin() + static_cast<std::ptrdiff_t>(index));
  if (launch.start >= stream.launch_start) {
    stream.launch_start = launch.start;
    stream.kernel_start = kernel.start;
    stream.joined.push_back({launch.start, now});
  }
  if (auto lane = lanes.find(launch.lane); lane != lanes.end() && lane->second.launch_start == launch.start)
    lane->second.kernel = kernel;
  if (launch.operations.empty() && launch.group != 0) {
    untold.push_back({launch.group, launch.start, kernel});
    if (untold.size() > kMostUntold) untold.pop_front();
  }
  auto differs = [&](const Operation& o) {
    const OperationRecord &a = o.record, &b = launch.operations.front().record;
    return a.pair != b.pair || a.comm != b.comm || a.peer != b.peer;
  };
  const bool mixed = std::any_of(launch.operations.begin(), launch.operations.end(), differs);
  for (Operation& o : launch.operations) {
    o.mixed = mixed;
    done(o, &kernel);
  }
}

/// Gives a launch the correlation of the call in it.
bool NcclJoin::joinCall(const CallRecord& call, const Done& done) {
  for (auto& [id, stream] : streams) {
    auto after = std::upper_bound(stream.launches.begin(), stream.launches.end(), call.start,
                                  [](uint64_t start, const Launch& l) { return start < l.start; });
    for (int near = 0; near < 8 && after != stream.launches.begin(); ++near) {  // threads launch at the same time
      if (!contains(*--after, call)) continue;
      if (std::count(after->correlations.begin(), after->correlations.end(), call.correlation) == 0)
        after->correlations.push_back(call.correlation);
      if (after->copies) return true;
      auto waiting = std::find_if(held.begin(), held.end(), [&, id = id](const Held& h) {
        return h.kernel.correlation == call.correlation && (id == 0 || h.kernel.stream == id);
      });
      if (waiting == held.end()) return true;
      const KernelRecord kernel = waiting->kernel;
      held.erase(waiting);
      exact_ = true;
      join(stream, static_cast<size_t>(after - stream.launches.begin()), kernel, now_, done);
      return true;
    }
  }
  return false;
}

void NcclJoin::call(const CallRecord& r, const Text& text, const Done& done) {
  if (call_is_.size() > kMostNames) call_is_.clear();
  auto [it, fresh] = call_is_.try_emplace(r.name, Called::other);
  if (fresh) {
    const std::string_view name = text(r.name);
    auto has = [&](const char* part) { return name.find(part) != std::string_view::npos; };
    it->second = has("GraphLaunch")    ? Called::graph
                 : has("LaunchKernel") ? Called::launch
                 : has("Memcpy")       ? Called::copy
                                       : Called::other;
  }
  if (it->second == Called::graph) return graphs.call(r);
  if (it->second == Called::other) return;
  newest_call_ = std::max(newest_call_, r.end);
  if (joinCall(r, done)) return;
  calls.push_back(r);
  if (calls.size() > kMostCalls) calls.pop_front();
}

bool NcclJoin::joinExactly(const KernelRecord& r, uint64_t now, const Done& done) {
  for (uint32_t id : {r.stream, 0u}) {
    auto found = streams.find(id);
    if (found == streams.end()) continue;
    std::deque<Launch>& queue = found->second.launches;
    for (size_t i = 0; i < queue.size(); ++i)
      if (std::count(queue[i].correlations.begin(), queue[i].correlations.end(), r.correlation) > 0) {
        exact_ = true;
        join(found->second, i, r, now, done);
        return true;
      }
  }
  return false;
}

void NcclJoin::kernel(const KernelRecord& r, uint64_t now, const Text& text, const Done& done) {
  if (!cached(is_nccl_, r.name, [&] { return model::isNcclKernel(text(r.name)); })) return;
  now_ = now;
  if (r.graph != 0 && graphs.knows()) return graphs.kernel(r, now);
  if (r.graph != 0 || !joinExactly(r, now, done)) held.push_back({r, now});
}

/// How many launches from `index` on have lost their kernels, if records were lost. A stream that has caught up with
/// its launches, which it does when the host waits for it, has run as many kernels as were launched. If from now on it
/// comes up to the same difference again and again, and never to less, that many were lost.
size_t NcclJoin::skipLost(const Stream& stream, size_t index, const KernelRecord& kernel) {
  constexpr size_t kOften = 3;
  const std::deque<Launch>& queue = stream.launches;
  if (missing <= skipped_) return index;
  std::vector<uint64_t> ends;
  for (const Held& h : held)
    if (h.kernel.stream == kernel.stream && h.kernel.start >= kernel.start) ends.push_back(h.kernel.end);
  std::sort(ends.begin(), ends.end());
  size_t behind = SIZE_MAX, seen = 0;
  for (size_t later = index + 1; later < queue.size() && !ends.empty() && queue[later].start <= ends.back(); ++later) {
    const auto ended = std::upper_bound(ends.begin(), ends.end(), queue[later].start) - ends.begin();
    const size_t open = later - index - std::min(later - index, static_cast<size_t>(ended));
    seen = open < behind ? 1 : seen + (open == behind);
    behind = std::min(behind, open);
  }
  if (seen < kOften || behind > missing - skipped_) return index;
  for (; behind > 0 && queue[index + 1].start <= kernel.start; --behind, ++index) ++skipped_;
  return index;
}

/// A kernel comes so late that those after it have been joined, each with the launch before its own: the launch that
/// would be next has lost its kernel to the one before.
bool NcclJoin::resynchronise(Stream& stream, const KernelRecord& late, const Done& done) {
  if (exact_ || late.start >= stream.kernel_start) return false;
  auto next = std::find_if(stream.launches.begin(), stream.launches.end(),
                           [&](const Launch& l) { return l.start > stream.launch_start && !l.copies; });
  if (next == stream.launches.end() || next->start > stream.kernel_start) return false;
  for (Stream::Ran& r : stream.ran)
    if (r.kernel_start > late.start && !std::exchange(r.doubted, true)) ++doubted;
  stream.launch_start = next->start;
  drop(*next, true, done);
  stream.launches.erase(next);
  return true;
}

bool NcclJoin::joinInOrder(const KernelRecord& r, uint64_t now, const Text& text, const Done& done) {
  const std::string_view name = text(r.name);
  for (uint32_t id : r.graph ? std::array{kGraphs, kGraphs} : std::array{r.stream, 0u}) {
    auto found = streams.find(id);
    if (found == streams.end()) continue;
    Stream& stream = found->second;
    const bool ordered = id != 0 && id != kGraphs;
    auto possible = [&](const Launch& l) {
      if ((exact_ && !l.correlations.empty()) || l.start > r.start || !recorded(l) || l.copies ||
          !fits(l.operations, name, text))
        return false;
      // Before or after the last one joined, as it ran; streams that are not known have no order.
      return !ordered ||
             (r.start >= stream.kernel_start ? l.start > stream.launch_start : l.start < stream.launch_start);
    };
    auto at = std::find_if(stream.launches.begin(), stream.launches.end(), possible);
    if (at == stream.launches.end()) {
      if (ordered && resynchronise(stream, r, done)) return true;
      continue;
    }
    size_t index = static_cast<size_t>(at - stream.launches.begin());
    if (const size_t skipped = ordered ? skipLost(stream, index, r) : index; possible(stream.launches[skipped]))
      index = skipped;
    constexpr size_t kMostRan = 4096;
    if (stream.ran.size() == kMostRan) stream.ran.pop_front();
    stream.ran.push_back({r.start});
    join(stream, index, r, now, done);
    return true;
  }
  return r.graph != 0 && joinReplay(r, text, done);
}

/// Gives up launches that later ones of their stream have overtaken a while ago.
void NcclJoin::passOver(uint64_t now, const Done& done) {
  for (auto& [id, stream] : streams) {
    const bool counts = id != kGraphs;
    while (!stream.joined.empty() && (now == UINT64_MAX || stream.joined.front().at + hold_ns <= now)) {
      stream.passed = std::max(stream.passed, stream.joined.front().launch_start);
      stream.joined.pop_front();
    }
    std::erase_if(stream.launches, [&, passed = stream.passed](Launch& l) {
      if (recorded(l)) {
        if (l.start >= passed) return false;
        drop(l, counts, done);
        return true;
      }
      // That the GPU is recorded again may not have been read yet.
      if (l.end >= gpu_on_ns && now != UINT64_MAX && l.since + hold_ns > now) return false;
      drop(l, false, done);
      return true;
    });
  }
}

void NcclJoin::gpu(const ring::GpuOnRecord& r, const Text& text, const Done& done) {
  if (r.off) {
    gpu_off_ns = r.start;
    return;
  }
  gpu_off_ns = UINT64_MAX;
  settle(text, done);  // what was recorded before it was off
  gpu_on_ns = r.start;
}

void NcclJoin::pass(uint64_t now, const Text& text, const Done& done) {
  if (now != UINT64_MAX && std::exchange(now_, now) == 0) {  // what was read before the time was known
    for (auto& [id, stream] : streams)
      for (Launch& l : stream.launches) l.since = now;
    for (GraphJoin::Launch& l : graphs.launches) l.since = now;
  }
  if (graphs.knows())  // those that were read before the first launch of a graph
    std::erase_if(held, [&](const Held& h) {
      if (h.kernel.graph != 0) graphs.kernel(h.kernel, h.since);
      return h.kernel.graph != 0;
    });
  // A kernel that has waited long enough takes those that began before it along.
  uint64_t until = 0;
  for (const Held& h : held)
    if (now == UINT64_MAX || h.since + hold_ns <= now) until = std::max(until, h.kernel.start);
  if (until > 0) {
    std::stable_sort(held.begin(), held.end(),
                     [](const Held& a, const Held& b) { return a.kernel.start < b.kernel.start; });
    while (!held.empty() && held.front().kernel.start <= until) {
      const KernelRecord kernel = held.front().kernel;
      if (!joinInOrder(kernel, now, text, done) && kernel.start >= std::max(first_launch_, counted_from)) ++lone;
      held.pop_front();
    }
  }
  passEarly(now, done);
  graphs.pass(time(now), text, done);
  passCopies(now, done);
  passOver(now, done);
  std::erase_if(calls, [&](const CallRecord& c) { return c.end + kKeepCallsNs < newest_call_; });
}

size_t NcclJoin::giveUp(const Text& text, const Done& done) {
  settle(text, done);
  size_t in_flight = graphs.giveUp(done);
  for (auto& [id, stream] : streams) {
    for (Launch& launch : stream.launches) {
      if (launch.copies && launch.correlations.empty()) {
        hide(launch, done);
        continue;
      }
      if (id != kGraphs) in_flight += launch.operations.size();
      drop(launch, false, done);
    }
    stream.launches.clear();
  }
  copies_waiting = 0;
  return in_flight;
}

std::vector<const NcclJoin::Launch*> NcclJoin::inFlight(const Stream& stream, uint32_t id) const {
  auto waits = std::count_if(held.begin(), held.end(), [&](const Held& h) { return h.kernel.stream == id; });
  std::vector<const Launch*> all;
  if (id == kGraphs) return all;
  for (const Launch& l : stream.launches) {
    if (!recorded(l) || l.start < stream.launch_start) continue;  // overtaken
    if (l.copies && (l.correlations.empty() || l.allCopied())) continue;
    if (waits-- > 0) continue;
    all.push_back(&l);
  }
  return all;
}

}  // namespace tracesmith::capture
