#include "sync/recording_span.hpp"

#include <algorithm>

#include "trace/layout.hpp"

namespace tracesmith::sync {

using namespace trace;

namespace {

int64_t addClamped(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

}  // namespace

const trace::ClockTable& BlockSpans::clockOf(uint32_t stream, int64_t node) {
  auto [it, fresh] = known_.try_emplace({stream, node}, nullptr);
  if (fresh) {
    std::string name;
    if (node != kNull)
      if (Result<const Strings*> strings = reader_.strings(stream)) name = (*strings)->at(node);
    it->second = &trace::clockOf(clocks_, name);
  }
  return *it->second;
}

std::optional<Span> BlockSpans::of(const Block& block) {
  const int ts = block.table->find("ts"), ts_end = block.table->find("ts_end"), node = block.table->find("node");
  int64_t low, high, end_low, end_high, first_node = kNull, last_node = kNull;
  if (ts < 0 || !block.zone(ts, low, high)) return {};
  if (ts_end >= 0 && block.zone(ts_end, end_low, end_high)) high = std::max(high, end_high);
  const bool named = node >= 0 && block.zone(node, first_node, last_node);
  if (!named || (first_node == last_node && block.find(node)->values == block.rows)) {
    const trace::ClockTable& clock = clockOf(block.stream, first_node);
    return Span{clock.toReference(low), clock.toReference(high)};
  }
  const int dur = block.table->find("dur");
  if (!decoder_.decode(block, ts, times_) || !decoder_.decode(block, node, nodes_)) return {};  // the reader knows
  const bool lasts = dur >= 0 && block.find(dur) && decoder_.decode(block, dur, durations_);
  Span span{INT64_MAX, INT64_MIN};
  for (uint32_t r = 0; r < block.rows; ++r) {
    const int64_t raw = slotAt(times_, Kind::Int, r), length = lasts ? slotAt(durations_, Kind::Int, r) : kNull;
    if (raw == kNull) continue;
    const trace::ClockTable& clock = clockOf(block.stream, slotAt(nodes_, Kind::Str, r));
    span.start = std::min(span.start, clock.toReference(raw));
    span.end = std::max(span.end, clock.toReference(addClamped(raw, std::max<int64_t>(0, length))));
  }
  return span.start <= span.end ? std::optional(span) : std::nullopt;
}

bool isWork(const TableInfo& table) {
  return &table == &tableOf<EventRow>() || &table == &tableOf<CollectiveRow>() || &table == &tableOf<StepRow>();
}

std::optional<Span> recordingSpan(const Reader& reader, const trace::Clocks& clocks) {
  BlockSpans spans(reader, clocks);
  std::optional<Span> all;
  auto take = [&](bool work) {
    for (const Block& block : reader.blocks()) {
      if (isWork(*block.table) != work || block.table == &tableOf<LossRow>()) continue;
      const std::optional<Span> span = spans.of(block);
      if (!span) continue;
      if (!all) all = span;
      all->start = std::min(all->start, span->start);
      all->end = std::max(all->end, span->end);
    }
  };
  take(true);
  if (!all) take(false);
  return all;
}

}  // namespace tracesmith::sync
