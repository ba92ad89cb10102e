// The part of NcclJoin for operations that do not come right after their launch on its lane: NCCL before 2.28 tells of
// no launches, and sometimes another thread tells of an operation than launched it.
//
// While a CUDA graph with operations in it runs, NCCL leaves the rest of the work for an operation, and the telling, to
// a thread of CUDA's: it comes milliseconds after the launch, or before it, and on another lane.
#include <algorithm>

#include "capture/collect/nccl_join.hpp"

namespace tracesmith::capture {
namespace {

constexpr size_t kMostEarly = 4096;
constexpr size_t kMostWaiting = 4096;  // launches of a stream: NCCL before 2.28 tells of replays of graphs

/// When its launch began, it was enqueued; when it was told says nothing.
NcclOperation enqueuedAt(NcclOperation o, uint64_t start, uint64_t group) {
  o.record.start = start;
  o.group = group;
  return o;
}

}  // namespace

void NcclJoin::operationAlone(uint32_t stream, uint32_t lane, const Operation& o, const Done& done) {
  const uint64_t start = o.record.start;
  first_launch_ = std::min(first_launch_, start);
  std::deque<Launch>& queue = streams[stream].launches;
  auto at = queue.end();
  while (at != queue.begin() && std::prev(at)->start > start) --at;
  queue.insert(at, {start, start, lane, 0, {}, {o}, now_, false, {}, 0, 0});
  if (queue.size() <= kMostWaiting) return;
  drop(queue.front(), stream != kGraphs, done);
  queue.pop_front();
}

void NcclJoin::operationElsewhere(uint32_t lane, Operation o, const Done& done) {
  const uint32_t group = o.record.group;
  // A group may have several launches: each has at least one operation.
  for (const bool second : {false, true}) {
    for (Untold& u : untold)
      if (isOf(u.group, group) && u.told == second) {
        u.told = true;
        return done(enqueuedAt(o, u.start, u.group), &u.kernel);
      }
    for (auto& [id, stream] : streams)
      for (Launch& l : stream.launches)
        if (l.group != 0 && isOf(l.group, group) && l.operations.empty() != second)
          return l.operations.push_back(enqueuedAt(o, l.start, l.group));
  }
  if (early.size() >= kMostEarly) {
    operationAlone(0, early.front().lane, early.front().operation, done);
    early.pop_front();
  }
  early.push_back({std::move(o), lane, now_});
}

void NcclJoin::takeEarly(Launch& launch) {
  if (launch.group == 0) return;
  std::erase_if(early, [&](const Early& e) {
    if (!isOf(launch.group, e.operation.record.group)) return false;
    launch.operations.push_back(enqueuedAt(e.operation, launch.start, launch.group));
    return true;
  });
}

/// Those whose launch does not come: it was lost, or it was before the recording.
void NcclJoin::passEarly(uint64_t now, const Done& done) {
  while (!early.empty() && time(now).waited(early.front().since)) {
    operationAlone(0, early.front().lane, early.front().operation, done);
    early.pop_front();
  }
}

}  // namespace tracesmith::capture
