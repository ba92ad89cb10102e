// Stages of a pipeline: which microbatches they run in which order, and what they send to each other.
#include <algorithm>

#include "capture/sim/job.hpp"

namespace tracesmith::sim {

/// What every microbatch exchanges: received, reduced over the tensor group, sent.
void Job::layOut(Random& random) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < 2 * config_.microbatches; ++i)
    sizes.push_back(static_cast<int64_t>(1 + random.next() % 16) << 18);
  for (int k = 0; k < segments(); ++k) {
    const int i = k % config_.microbatches + (backward(k) ? config_.microbatches : 0);
    const int64_t bytes = sizes[static_cast<size_t>(i)];
    collectives_.push_back({"recv", Group::pipe, bytes, kSendRecvKernel, k});
    collectives_.push_back({"all_reduce", Group::node, bytes, 1, k});
    collectives_.push_back({"send", Group::pipe, bytes, kSendRecvKernel, k});
  }
}

std::vector<int> Job::segmentOrder(int stage) const {
  const int stages = config_.pipeline, chunks = config_.chunks, pass = config_.microbatches * chunks;
  int ahead = pass;
  if (config_.in_turn) ahead = chunks > 1 ? 2 * (stages - 1 - stage) + (chunks - 1) * stages : stages - 1 - stage;
  ahead = std::min(ahead, pass);
  // As many microbatches as there are stages go through one chunk, then through the next.
  auto segment = [&](int i) {
    if (chunks == 1) return i;
    const int round = i / (stages * chunks), chunk = i % (stages * chunks) / stages;
    return chunk * config_.microbatches + round * stages + i % stages;
  };
  std::vector<int> order;
  for (int i = 0; i < pass + ahead; ++i) {
    if (i < pass) order.push_back(segment(i));
    if (i >= ahead) order.push_back(pass + segment(i - ahead));
  }
  return order;
}

int Job::turnOf(int stage, int segment) const {
  const int chunk = segment % (config_.microbatches * config_.chunks) / config_.microbatches;
  return chunk * config_.pipeline + (backward(segment) ? config_.pipeline - 1 - stage : stage);
}

int Job::peerOf(int rank, const CollectiveModel& model) const {
  const int stages = config_.pipeline, way = backward(model.segment) == model.sends() ? -1 : 1;
  return (stageOf(rank) + way + stages) % stages;
}

int Job::sentIn(int rank, int segment) const {
  const int first = backward(segment) ? config_.pipeline - 1 : 0;
  return stageOf(rank) == first ? segment - config_.microbatches : segment;
}

bool Job::takesPart(int rank, const CollectiveModel& model) const {
  if (!config_.laidOut()) return true;
  if (!model.pair()) return model.group == Group::world || place(rank, model.group).size > 1;
  const int turn = turnOf(stageOf(rank), model.segment);
  return model.sends() ? turn + 1 < config_.pipeline * config_.chunks : turn > 0;
}

int64_t Job::pairNumber(int rank, const CollectiveModel& model, int64_t step) const {
  const int stages = config_.pipeline, count = config_.microbatches;
  const int from = model.sends() ? stageOf(rank) : peerOf(rank, model);
  const int segment = (model.sends() ? model.segment : sentIn(rank, model.segment)) % (count * config_.chunks);
  if (config_.chunks == 1) return step * count + segment;
  // The last stage of a pass sends nothing on from the last chunk.
  const bool round = from == (backward(model.segment) ? 0 : stages - 1);
  const int chunks = config_.chunks - round, m = segment % count;
  return step * count * chunks + m / stages * (stages * chunks) + segment / count * stages + m % stages;
}

/// A stage runs its next segment once the stage it receives from has run it. One at a time: what a stream transfers is
/// settled in the order of the calls.
void Job::simulateSegments(int step, std::vector<RankState>& states, std::vector<CollectiveTime>& times,
                           const Run& run) const {
  const int per_stage = config_.ranks / config_.pipeline;
  std::vector<std::vector<int>> orders;
  for (int stage = 0; stage < config_.pipeline; ++stage) orders.push_back(segmentOrder(stage));
  std::vector<size_t> next(orders.size());
  std::vector<std::vector<bool>> ran(orders.size(), std::vector<bool>(static_cast<size_t>(segments())));
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < config_.pipeline; ++stage) {
      const auto i = static_cast<size_t>(stage);
      if (next[i] == orders[i].size()) continue;
      const int k = orders[i][next[i]], rank = stage * per_stage;
      const CollectiveModel& receive = collectives_[segmentModel(k, 0)];
      if (takesPart(rank, receive) &&
          !ran[static_cast<size_t>(peerOf(rank, receive))][static_cast<size_t>(sentIn(rank, k))])
        continue;
      simulateSegment(k, stage, step, states, times, run);
      ran[i][static_cast<size_t>(k)] = moved = true;
      ++next[i];
    }
  }
}

void Job::simulateSegment(int k, int stage, int step, std::vector<RankState>& states,
                          std::vector<CollectiveTime>& times, const Run& run) const {
  const int per_stage = config_.ranks / config_.pipeline, tensor = std::max(1, config_.tensor);
  auto forStage = [&](const RankPart& part) { run(0, stage * per_stage, (stage + 1) * per_stage, part); };
  forStage([&](int r, RankState& s, CollectiveTime* t, Random& random, const Sink& sink) {
    receivePart(k, r, step, s, t, random, sink);
  });
  settleTransfers(step, k, stage, states, times);
  forStage([&](int r, RankState& s, CollectiveTime* t, Random& random, const Sink& sink) {
    segmentPart(k, r, step, s, t, random, sink);
  });
  for (int id = stage * per_stage / tensor; id < (stage + 1) * per_stage / tensor; ++id)
    settleGroup(step, segmentModel(k, 1), id, states, times);
  forStage([&](int r, RankState& s, CollectiveTime* t, Random& random, const Sink& sink) {
    sendPart(k, r, s, t, random, sink);
  });
}

/// What a stage receives in a segment, and the sends it comes from.
void Job::settleTransfers(int step, int segment, int stage, std::vector<RankState>& states,
                          std::vector<CollectiveTime>& times) const {
  const size_t per_rank = collectives_.size(), receive = segmentModel(segment, 0);
  const int per_stage = config_.ranks / config_.pipeline;
  for (int r = stage * per_stage; r < (stage + 1) * per_stage; ++r) {
    if (!takesPart(r, collectives_[receive])) continue;
    const size_t send = segmentModel(sentIn(r, segment), 2);
    const int from = member(Group::pipe, place(r, Group::pipe).id, peerOf(r, collectives_[receive]));
    Random random(config_.seed ^ static_cast<uint64_t>(step) << 20 ^ receive << 8 ^ static_cast<uint64_t>(r) << 44 ^
                  0x5e2d);
    CollectiveTime& a = times[static_cast<size_t>(from) * per_rank + send];
    CollectiveTime& b = times[static_cast<size_t>(r) * per_rank + receive];
    int64_t& sent = states[static_cast<size_t>(from)].comm[queueOf(collectives_[send])];
    int64_t& received = states[static_cast<size_t>(r)].comm[queueOf(collectives_[receive])];
    a.start = std::max(a.ready, sent + 700);
    b.start = std::max(b.ready, received + 700);
    const double gbps = bandwidth(std::min(from, r), std::max(from, r), false);
    const auto bytes = static_cast<double>(collectives_[receive].bytes);
    const int64_t end = std::max(a.start, b.start) + static_cast<int64_t>((8000 + bytes / gbps) * random.noise());
    sent = a.end = end + static_cast<int64_t>(random.next() % 2000);
    received = b.end = end + static_cast<int64_t>(random.next() % 2000);
  }
}

}  // namespace tracesmith::sim
