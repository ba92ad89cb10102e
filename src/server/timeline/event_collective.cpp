// The collective a row is part of: all ranks of it, and who came last.
#include <algorithm>
#include <numeric>

#include "model/operation.hpp"
#include "server/timeline/timeline.hpp"

namespace tracesmith::server {
namespace {

using trace::Kind;
using trace::kNull;

std::optional<int64_t> orNone(int64_t slot) { return slot == kNull ? std::nullopt : std::optional(slot); }

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

model::CollectiveDetail Timeline::collectiveOf(const Place& part) {
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
    return process >= 0 ? std::optional(process) : std::nullopt;
  };
  model::CollectiveDetail out;
  out.op = op;
  out.group = names_.text(comm);
  out.seq = orNone(seq);
  out.bytes = orNone(bytes);
  if (const auto speed = model::bandwidthOf(model::opKind(op), bytes, ranks, shortest))
    out.algbw_gbps = speed->algorithm_gbps, out.busbw_gbps = speed->bus_gbps;
  if (all.size() > 1) out.culprit_rank = rankOf(all.back());
  for (const Arrival& a : all) out.arrivals.push_back({rankOf(a), a.track, a.ts, a.ts + a.dur, all.back().ts - a.ts});
  return out;
}

}  // namespace tracesmith::server
