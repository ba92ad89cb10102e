#include "capture/collect/nccl_join.hpp"

#include <algorithm>

#include "model/communication.hpp"
#include "model/operation.hpp"

namespace tracesmith::capture {

using model::OpKind;
using ring::KernelRecord;
using ring::LaunchRecord;
using ring::OperationRecord;

namespace {

constexpr size_t kMostWaiting = 4096;  // launches of a stream; graph replays may never get a kernel

/// Whether a kernel of this name can be the one of this launch: NCCL puts the function into it, if it is only for one.
bool fits(const NcclJoin::Launch& launch, std::string_view kernel, const NcclJoin::Text& text) {
  const OpKind op = model::opKindOf(model::kernelWords(kernel).function);
  if (op == OpKind::other || launch.operations.empty()) return true;
  return std::any_of(launch.operations.begin(), launch.operations.end(), [&](const NcclJoin::Operation& o) {
    const OpKind called = o.record.pair ? OpKind::send_recv : model::opKindOf(text(o.record.function));
    // What NCCL has no kernel for it runs as sends and receives.
    const bool as_pairs = called == OpKind::all_to_all || called == OpKind::gather || called == OpKind::scatter;
    return op == (as_pairs ? OpKind::send_recv : called);
  });
}

/// Hands out the operations of a launch.
void handOut(NcclJoin::Launch& launch, const KernelRecord* kernel, const NcclJoin::Done& done) {
  std::vector<NcclJoin::Operation>& operations = launch.operations;
  auto differs = [&](const NcclJoin::Operation& o) {
    const OperationRecord &a = o.record, &b = operations.front().record;
    return a.pair != b.pair || a.comm != b.comm || a.peer != b.peer;
  };
  const bool mixed = std::any_of(operations.begin(), operations.end(), differs);
  for (NcclJoin::Operation& o : operations) {
    o.mixed = mixed;
    done(o, kernel);
  }
}

/// The same for the first launch of a queue, and forgets it.
void settle(std::deque<NcclJoin::Launch>& queue, const KernelRecord* kernel, const NcclJoin::Done& done) {
  handOut(queue.front(), kernel, done);
  queue.pop_front();
}

}  // namespace

void NcclJoin::launch(uint32_t lane, const LaunchRecord& r) {
  if (r.captured) return;  // nothing was launched
  lane_stream[lane] = r.stream;
  launches[r.stream].push_back({r.start, r.end, {}, turn});
}

void NcclJoin::operation(uint32_t lane, const OperationRecord& r, int64_t tid, const Done& done) {
  if (r.captured) return done({r, tid}, nullptr);  // it has no kernel of its own: those of the replays are the graph's
  // Without a launch before it (NCCL before 2.28, graph replays) an operation stands for itself.
  auto stream = lane_stream.find(lane);
  std::deque<Launch>& queue = launches[stream == lane_stream.end() ? 0 : stream->second];
  if (stream == lane_stream.end() || queue.empty()) queue.push_back({r.start, r.start, {}, turn});
  queue.back().operations.push_back({r, tid});
  if (queue.size() > kMostWaiting) settle(queue, nullptr, done);
}

void NcclJoin::kernel(const KernelRecord& r, const Text& text, const Done& done) {
  auto [known, fresh] = is_nccl.try_emplace(r.name, false);
  if (fresh) known->second = model::isNcclKernel(text(r.name));
  if (!known->second) return;
  const std::string_view name = text(r.name);
  for (uint32_t stream : {r.stream, 0u}) {
    auto found = launches.find(stream);
    if (found == launches.end()) continue;
    std::deque<Launch>& queue = found->second;
    while (!queue.empty() && queue.front().end < gpu_on_ns)
      settle(queue, nullptr, done);  // launched while nobody recorded
    // One whose kernel was lost would shift all after it: it shows where functions alternate.
    auto fitting = std::find_if(queue.begin(), queue.end(),
                                [&](const Launch& l) { return l.start <= r.start && fits(l, name, text); });
    if (fitting == queue.end()) continue;
    for (auto n = fitting - queue.begin(); n > 0; --n) settle(queue, nullptr, done);
    settle(queue, &r, done);
    return;
  }
}

void NcclJoin::giveUpUnseen(size_t keep, const Done& done) {
  if (gpu_off_ns != 0)
    for (auto& [stream, queue] : launches) {
      auto told = [&](const Launch& l) { return l.turn != turn && unseen(l.start); };
      auto left = static_cast<size_t>(std::count_if(queue.begin(), queue.end(), told));
      std::erase_if(queue, [&](Launch& l) {
        if (left <= keep || !told(l)) return false;
        --left;
        handOut(l, nullptr, done);
        return true;
      });
    }
  ++turn;
}

void NcclJoin::giveUp(const Done& done) const {
  for (const auto& [stream, queue] : launches)
    for (const Launch& launch : queue)
      for (const Operation& o : launch.operations) done(o, nullptr);
}

}  // namespace tracesmith::capture
