// The collective a row is part of: all ranks of it, and who came last.
#include <algorithm>
#include <numeric>

#include "base/text.hpp"
#include "model/operation.hpp"
#include "server/timeline/timeline.hpp"

namespace tracesmith::server {
namespace {

using trace::Kind;
using trace::kNull;

void bandwidth(JsonWriter& w, std::string_view op, int64_t bytes, int64_t ranks, int64_t dur) {
  if (const auto speed = model::bandwidthOf(model::opKind(op), bytes, ranks, dur))
    w.field("algbw_gbps", speed->algorithm_gbps).field("busbw_gbps", speed->bus_gbps);
  else
    w.key("algbw_gbps").null().key("busbw_gbps").null();
}

void optional(JsonWriter& w, const char* key, int64_t value) {
  w.key(key);
  value == kNull ? w.null() : w.value(value);
}

}  // namespace

std::vector<Timeline::Arrival> Timeline::arrivals(const Place& part, uint32_t comm, int64_t seq, int64_t ranks) {
  std::vector<uint32_t> all(index_->blocks.size());
  std::iota(all.begin(), all.end(), 0);
  const Rows drawn = decode(part.summary);
  if (!drawn) return {};
  const uint32_t op = drawn->name[part.row];
  trace::BlockDecoder decoder(*reader_);
  trace::ColumnData comms;
  uint32_t decoded = UINT32_MAX;
  auto ofSame = [&](const Place& p, const TimelineRows& rows) {
    const trace::Block& b = reader_->blocks()[index_->blocks[p.summary].block];
    if (decoded != p.summary && !decoder.decode(b, trace::collectives::comm, comms)) return false;
    decoded = p.summary;
    const int64_t slot = comms.allNull() ? kNull : trace::slotAt(comms, Kind::Str, p.row);
    return names_.of(b.stream, slot) == comm && rows.name[p.row] == op;
  };
  // Those who take part overlap, or nearly: only where some are missing is the rest of the trace read.
  const size_t enough = ranks == kNull ? SIZE_MAX : static_cast<size_t>(ranks);
  std::vector<Arrival> found;
  for (const Place& p :
       findNear(all, *drawn, part.row,
                {trace::tableOf<trace::CollectiveRow>(), trace::collectives::seq, seq, ofSame, enough}))
    if (const Rows rows = decode(p.summary)) found.push_back({rows->ts[p.row], rows->dur[p.row], rows->track[p.row]});
  std::sort(found.begin(), found.end(), [](const Arrival& a, const Arrival& b) { return a.ts < b.ts; });
  return found;
}

void Timeline::writeCollective(JsonWriter& w, const Place& part) {
  namespace col = trace::collectives;
  const trace::TableInfo& table = trace::tableOf<trace::CollectiveRow>();
  const trace::Block& block = reader_->blocks()[index_->blocks[part.summary].block];
  trace::BlockDecoder decoder(*reader_);
  auto valueOf = [&](int column) {
    trace::ColumnData data;
    if (!decoder.decode(block, column, data) || data.allNull()) return kNull;
    return trace::slotAt(data, table.columns[static_cast<size_t>(column)].kind, part.row);
  };
  const std::string op(names_.text(names_.of(block.stream, valueOf(col::op))));
  const uint32_t comm = names_.of(block.stream, valueOf(col::comm));
  const int64_t seq = valueOf(col::seq), bytes = valueOf(col::bytes), ranks = valueOf(col::group_size);
  std::vector<Arrival> all;
  if (seq != kNull) all = arrivals(part, comm, seq, ranks);
  // The shortest part is the transfer: the others waited first.
  int64_t shortest = valueOf(col::dur);
  for (const Arrival& a : all)
    if (a.dur > 0) shortest = shortest == kNull ? a.dur : std::min(shortest, a.dur);
  auto rankOf = [&](const Arrival& a) {
    const int64_t process = index_->tracks[a.track].key.process;
    return process >= 0 ? process : kNull;
  };
  w.beginObject().field("op", op).field("group", names_.text(comm));
  optional(w, "seq", seq);
  optional(w, "bytes", bytes);
  bandwidth(w, op, bytes, ranks, shortest);
  optional(w, "culprit_rank", all.size() > 1 ? rankOf(all.back()) : kNull);
  w.key("arrivals").beginArray();
  for (const Arrival& a : all) {
    w.beginObject();
    optional(w, "rank", rankOf(a));
    w.field("track", static_cast<uint64_t>(a.track)).field("ts_rel", a.ts).field("end_rel", a.ts + a.dur);
    w.field("wait_ns", all.back().ts - a.ts).endObject();
  }
  w.endArray().endObject();
}

}  // namespace tracesmith::server
