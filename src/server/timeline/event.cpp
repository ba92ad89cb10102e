// Everything about one row: its columns, what it is joined with, the collective it is part of.
#include <algorithm>
#include <numeric>

#include "analysis/each_row.hpp"
#include "base/text.hpp"
#include "server/timeline/timeline.hpp"

namespace tracesmith::server {
namespace {

using trace::Kind;
using trace::kNull;

constexpr size_t kFlows = 64;

bool parseRowId(std::string_view id, char& table, int64_t& block, int64_t& row) {
  const size_t dot = id.find('.');
  if (id.size() < 4 || dot == std::string_view::npos) return false;
  table = id[0];
  return parseInt(id.substr(1, dot - 1), block) && parseInt(id.substr(dot + 1), row) && block >= 0 && row >= 0;
}

/// Bytes of the whole operation per second, and what a link carried of it: as nccl-tests counts.
void bandwidth(JsonWriter& w, const std::string& op, int64_t bytes, int64_t ranks, int64_t dur) {
  if (bytes == kNull || dur == kNull || dur <= 0 || ranks == kNull || ranks <= 0) {
    w.key("algbw_gbps").null().key("busbw_gbps").null();
    return;
  }
  const auto n = static_cast<double>(ranks);
  const bool each =
      op == "all_gather" || op == "reduce_scatter" || op == "all_to_all" || op == "gather" || op == "scatter";
  const double alg = static_cast<double>(bytes) * (each ? n : 1) / static_cast<double>(dur);
  const double factor = op == "all_reduce" ? 2 * (n - 1) / n : each ? (n - 1) / n : 1;
  w.field("algbw_gbps", alg).field("busbw_gbps", alg * factor);
}

}  // namespace

Result<std::string> Timeline::event(const std::string& id) {
  const Status unknown = Status::notFound("there is no row " + id.substr(0, 64) + " in this trace");
  char table_letter;
  int64_t block_number, row_number;
  if (!parseRowId(id, table_letter, block_number, row_number)) return unknown;
  auto it = block_number <= UINT32_MAX ? index_->summary_of.find(static_cast<uint32_t>(block_number))
                                       : index_->summary_of.end();
  if (it == index_->summary_of.end()) return unknown;
  const trace::Block& block = reader_->blocks()[static_cast<size_t>(block_number)];
  const trace::TableInfo& table = *block.table;
  if (table.name[0] != table_letter || row_number >= block.rows) return unknown;
  const auto row = static_cast<size_t>(row_number);
  const Rows drawn = decode(it->second);
  if (!drawn || drawn->track[row] == kNoTrack) return unknown;
  const uint32_t track = drawn->track[row];
  const TrackKey& key = index_->tracks[track].key;
  const bool events = &table == &trace::tableOf<trace::EventRow>();
  const bool collectives = &table == &trace::tableOf<trace::CollectiveRow>();

  trace::BlockDecoder decoder(*reader_);
  Result<const trace::Strings*> strings = reader_->strings(block.stream);
  if (!strings) return strings.status();
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("name", rowName(names_, drawn->name[row])).field("type", rowTypeName(drawn->type[row]));
  w.field("ts", std::to_string(drawn->ts[row] + index_->origin)).field("ts_rel", drawn->ts[row]);
  w.field("track", static_cast<uint64_t>(track)).field("row_id", id);
  int64_t correlation = kNull, seq = kNull;
  std::string comm;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    const trace::ColumnInfo& column = table.columns[c];
    const std::string_view name = column.name;
    if (name == "ts" || name == "type" || column.kind == Kind::Sum) continue;
    if (name == "name" && !collectives) continue;
    trace::ColumnData data;
    if (!decoder.decode(block, static_cast<int>(c), data)) continue;
    const bool known = !data.allNull() && data.valid(row);
    const std::string as = collectives && name == "name" ? "kernel" : name == "flow" ? "flow_id" : std::string(name);
    if (!known) {
      if (column.kind == Kind::Launch)
        w.key("grid").null().key("block").null();
      else
        w.key(as).null();
      continue;
    }
    const int64_t slot = column.kind == Kind::Text ? 0 : trace::slotAt(data, column.kind, row);
    if (name == "correlation") correlation = slot;
    if (name == "seq") seq = slot;
    switch (column.kind) {
      case Kind::Str:
        w.field(as, (*strings)->at(slot));
        if (name == "comm") comm = (*strings)->at(slot);
        break;
      case Kind::Text:
        w.field(as, data.textAt(row));
        break;
      case Kind::Launch: {
        const trace::LaunchShape s = trace::LaunchShape::parse((*strings)->at(slot));
        auto triple = [&](const char* k, int x, int y, int z) {
          w.key(k).beginArray().value(x).value(y).value(z).endArray();
        };
        triple("grid", s.grid_x, s.grid_y, s.grid_z);
        triple("block", s.block_x, s.block_y, s.block_z);
        w.field("registers", s.registers).field("shared_static", s.shared_static);
        w.field("shared_dynamic", s.shared_dynamic);
        break;
      }
      case Kind::Real:
        w.field(as, data.realAt(row));
        break;
      default:
        // Ids and times may pass what a JavaScript number holds.
        if (slot > (int64_t{1} << 53) || slot < -(int64_t{1} << 53))
          w.field(as, std::to_string(slot));
        else
          w.field(as, slot);
    }
  }

  /// Rows of a table in which a column of integers has a value, as rows that are drawn.
  auto each = [&](const std::vector<uint32_t>& blocks, const trace::TableInfo& in, int column, int64_t value,
                  const auto& visit) {
    trace::BlockDecoder own(*reader_);
    for (uint32_t s : blocks) {
      const trace::Block& b = reader_->blocks()[index_->blocks[s].block];
      int64_t low, high;
      if (b.table != &in || !b.zone(column, low, high) || value < low || value > high) continue;
      trace::ColumnData data;
      if (!own.decode(b, column, data)) continue;
      const int64_t* values = data.data<int64_t>();
      Rows there;
      for (uint32_t r = 0; r < b.rows; ++r) {
        if (values[r] != value || !data.valid(r)) continue;
        if (!there) there = decode(s);
        if (!there) break;
        if (there->track[r] != kNoTrack && !visit(b, s, r, *there)) return;
      }
    }
  };
  auto sameProcess = [&](uint32_t other) {
    const TrackKey& k = index_->tracks[other].key;
    return k.node == key.node && k.process == key.process;
  };

  std::vector<uint32_t> own_blocks, all_blocks(index_->blocks.size());
  std::iota(all_blocks.begin(), all_blocks.end(), 0);
  for (uint32_t t = 0; t < index_->tracks.size(); ++t)
    if (sameProcess(t))
      own_blocks.insert(own_blocks.end(), index_->tracks[t].blocks.begin(), index_->tracks[t].blocks.end());
  std::sort(own_blocks.begin(), own_blocks.end());
  own_blocks.erase(std::unique(own_blocks.begin(), own_blocks.end()), own_blocks.end());

  w.key("flow").beginArray();
  if (correlation != kNull) {
    size_t flows = 0;
    each(own_blocks, trace::tableOf<trace::EventRow>(), trace::events::correlation, correlation,
         [&](const trace::Block&, uint32_t s, uint32_t r, const TimelineRows& rows) {
           if (!sameProcess(rows.track[r]) || (s == it->second && r == row)) return true;
           w.beginObject().field("track", static_cast<uint64_t>(rows.track[r])).field("ts_rel", rows.ts[r]);
           w.field("dur", rows.dur[r]).field("name", rowName(names_, rows.name[r]));
           w.field("type", rowTypeName(rows.type[r])).field("row_id", rowId(s, r)).endObject();
           return ++flows < kFlows;
         });
  }
  w.endArray();

  // The collective: this row, or the one that has this kernel.
  const trace::TableInfo& parts = trace::tableOf<trace::CollectiveRow>();
  uint32_t part_summary = it->second, part_row = static_cast<uint32_t>(row);
  bool part = collectives;
  if (events && correlation != kNull && trace::isDeviceType(static_cast<trace::EventType>(drawn->type[row])))
    each(own_blocks, parts, trace::collectives::correlation, correlation,
         [&](const trace::Block&, uint32_t s, uint32_t r, const TimelineRows& rows) {
           if (!sameProcess(rows.track[r])) return true;
           part = true;
           part_summary = s;
           part_row = r;
           return false;
         });
  w.key("collective");
  if (!part) {
    w.null().endObject();
    return text;
  }
  struct Value {
    int64_t number = kNull;
    std::string text;
  };
  auto valueOf = [&](uint32_t s, uint32_t r, int column) {
    const trace::Block& b = reader_->blocks()[index_->blocks[s].block];
    trace::BlockDecoder own(*reader_);
    trace::ColumnData data;
    Value v;
    if (!own.decode(b, column, data) || data.allNull() || !data.valid(r)) return v;
    v.number = trace::slotAt(data, parts.columns[static_cast<size_t>(column)].kind, r);
    if (parts.columns[static_cast<size_t>(column)].kind == Kind::Str)
      v.text = names_.text(names_.of(b.stream, v.number));
    return v;
  };
  namespace col = trace::collectives;
  const std::string op = valueOf(part_summary, part_row, col::op).text;
  comm = valueOf(part_summary, part_row, col::comm).text;
  seq = valueOf(part_summary, part_row, col::seq).number;
  const int64_t bytes = valueOf(part_summary, part_row, col::bytes).number;
  const int64_t ranks = valueOf(part_summary, part_row, col::group_size).number;
  struct Arrival {
    int64_t ts, dur;
    uint32_t track;
  };
  std::vector<Arrival> arrivals;
  if (seq != kNull) {
    trace::BlockDecoder own(*reader_);
    const trace::Block* at = nullptr;
    trace::ColumnData comms;
    each(all_blocks, parts, col::seq, seq, [&](const trace::Block& b, uint32_t, uint32_t r, const TimelineRows& rows) {
      if (at != &b) {
        at = &b;
        if (!own.decode(b, col::comm, comms)) return false;
      }
      const std::string_view here = comms.allNull() || !comms.valid(r)
                                        ? std::string_view()
                                        : names_.text(names_.of(b.stream, trace::slotAt(comms, Kind::Str, r)));
      if (here == comm && rowName(names_, rows.name[r]) == op)
        arrivals.push_back({rows.ts[r], rows.dur[r], rows.track[r]});
      return true;
    });
  }
  std::sort(arrivals.begin(), arrivals.end(), [](const Arrival& a, const Arrival& b) { return a.ts < b.ts; });
  const int64_t part_dur = valueOf(part_summary, part_row, col::dur).number;
  w.beginObject().field("op", op).field("group", comm).key("seq");
  seq == kNull ? w.null() : w.value(seq);
  w.key("bytes");
  bytes == kNull ? w.null() : w.value(bytes);
  // The shortest part is the transfer: the others waited first.
  int64_t shortest = part_dur;
  for (const Arrival& a : arrivals)
    if (a.dur > 0) shortest = shortest == kNull ? a.dur : std::min(shortest, a.dur);
  bandwidth(w, op, bytes, ranks, shortest);
  w.key("culprit_rank");
  if (arrivals.size() > 1 && index_->tracks[arrivals.back().track].key.process >= 0)
    w.value(index_->tracks[arrivals.back().track].key.process);
  else
    w.null();
  w.key("arrivals").beginArray();
  for (const Arrival& a : arrivals) {
    const int64_t process = index_->tracks[a.track].key.process;
    w.beginObject().key("rank");
    process >= 0 ? w.value(process) : w.null();
    w.field("track", static_cast<uint64_t>(a.track)).field("ts_rel", a.ts).field("end_rel", a.ts + a.dur);
    w.field("wait_ns", arrivals.back().ts - a.ts).endObject();
  }
  w.endArray().endObject().endObject();
  return text;
}

}  // namespace tracesmith::server
