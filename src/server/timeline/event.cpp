// Everything about one row: its columns, and what it is joined with. What it is joined with is looked for near it
// first, and elsewhere only if it is not there.
#include <algorithm>

#include "analysis/rows/each_row.hpp"
#include "base/parallel.hpp"
#include "base/text.hpp"
#include "model/travel_json.hpp"
#include "server/timeline/timeline.hpp"

namespace tracesmith::server {
namespace {

using trace::Kind;
using trace::kNull;

constexpr size_t kFlows = 64;
constexpr int64_t kNear = 1'000'000'000;  // ns: a queue is rarely longer

bool parseRowId(std::string_view id, char& table, int64_t& block, int64_t& row) {
  const size_t dot = id.find('.');
  if (id.size() < 4 || dot == std::string_view::npos) return false;
  table = id[0];
  return parseInt(id.substr(1, dot - 1), block) && parseInt(id.substr(dot + 1), row) && block >= 0 && row >= 0;
}

}  // namespace

Result<std::string> Timeline::event(const std::string& id) {
  const Status unknown = Status::notFound("no row " + id.substr(0, 64) + " in this trace");
  char table_letter;
  int64_t block_number, row_number;
  if (!parseRowId(id, table_letter, block_number, row_number)) return unknown;
  auto it = block_number <= UINT32_MAX ? index_->summary_of.find(static_cast<uint32_t>(block_number))
                                       : index_->summary_of.end();
  if (it == index_->summary_of.end()) return unknown;
  const trace::Block& block = reader_->blocks()[static_cast<size_t>(block_number)];
  const trace::TableInfo& table = *block.table;
  if (table.name[0] != table_letter || row_number >= block.rows) return unknown;
  const Place place{it->second, static_cast<uint32_t>(row_number)};
  const Rows drawn = decode(place.summary);
  if (!drawn || drawn->track[place.row] == kNoTrack) return unknown;
  const uint32_t track = drawn->track[place.row];

  std::string text;
  JsonWriter w(text);
  w.beginObject();
  model::writeFields(
      w, model::EventHead{std::string(rowName(names_, drawn->name[place.row])), rowTypeName(drawn->type[place.row]),
                          drawn->ts[place.row] + index_->origin, drawn->ts[place.row], track, id, depthOf(place)});
  int64_t correlation = kNull;
  TS_TRY(writeColumns(w, block, place.row, correlation));
  model::EventJoins joins;
  if (correlation != kNull) joins.flow = flowOf(place, *drawn, correlation);
  // The collective: this row, or the one that has this kernel.
  const trace::TableInfo& parts = trace::tableOf<trace::CollectiveRow>();
  std::vector<Place> part;
  if (&table == &parts)
    part.push_back(place);
  else if (&table == &trace::tableOf<trace::EventRow>() && correlation != kNull &&
           trace::isDeviceType(static_cast<trace::EventType>(drawn->type[place.row])))
    part = findNear(blocksOfProcess(track), *drawn, place.row,
                    {parts, trace::collectives::correlation, correlation, inProcess(track), 1});
  if (!part.empty()) joins.collective = collectiveOf(part.front());
  model::writeFields(w, joins);
  w.endObject();
  return text;
}

/// All columns of the row but those every row has; `correlation` is its own.
Status Timeline::writeColumns(JsonWriter& w, const trace::Block& block, size_t row, int64_t& correlation) const {
  const trace::TableInfo& table = *block.table;
  const bool collectives = &table == &trace::tableOf<trace::CollectiveRow>();
  trace::BlockDecoder decoder(*reader_);
  Result<const trace::Strings*> strings = reader_->strings(block.stream);
  if (!strings) return strings.status();
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
    switch (column.kind) {
      case Kind::Str:
        w.field(as, (*strings)->at(slot));
        break;
      case Kind::Text:
        w.field(as, data.textAt(row));
        break;
      case Kind::Launch: {
        const trace::LaunchShape s = trace::LaunchShape::parse((*strings)->at(slot));
        using Number = std::optional<int32_t>;
        auto one = [&](const char* k, Number v) { v ? w.field(k, *v) : w.key(k).null(); };
        auto triple = [&](const char* k, Number x, Number y, Number z) {
          w.key(k);
          if (x && y && z)
            w.beginArray().value(*x).value(*y).value(*z).endArray();
          else
            w.null();
        };
        triple("grid", s.grid_x, s.grid_y, s.grid_z);
        triple("block", s.block_x, s.block_y, s.block_z);
        one("registers", s.registers);
        one("shared_static", s.shared_static);
        one("shared_dynamic", s.shared_dynamic);
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

  return {};
}

bool Timeline::sameProcess(uint32_t a, uint32_t b) const {
  const TrackKey &x = index_->tracks[a].key, &y = index_->tracks[b].key;
  return x.node == y.node && x.process == y.process;
}

std::function<bool(const Timeline::Place&, const TimelineRows&)> Timeline::inProcess(uint32_t track) const {
  return [this, track](const Place& p, const TimelineRows& rows) { return sameProcess(rows.track[p.row], track); };
}

std::vector<uint32_t> Timeline::blocksOfProcess(uint32_t track) const {
  std::vector<uint32_t> blocks;
  for (uint32_t t = 0; t < index_->tracks.size(); ++t)
    if (sameProcess(t, track))
      blocks.insert(blocks.end(), index_->tracks[t].blocks.begin(), index_->tracks[t].blocks.end());
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

std::vector<Timeline::Place> Timeline::find(std::vector<uint32_t> summaries, const trace::TableInfo& table, int column,
                                            int64_t value) {
  std::erase_if(summaries, [&](uint32_t s) {
    const trace::Block& b = reader_->blocks()[index_->blocks[s].block];
    int64_t low, high;
    return b.table != &table || !b.zone(column, low, high) || value < low || value > high;
  });
  std::vector<std::vector<Place>> found(summaries.size());
  parallelFor(summaries.size(), cores(), [&](size_t i, size_t) {
    const trace::Block& b = reader_->blocks()[index_->blocks[summaries[i]].block];
    trace::BlockDecoder decoder(*reader_);
    trace::ColumnData data;
    if (!decoder.decode(b, column, data)) return;
    const int64_t* values = data.data<int64_t>();
    for (uint32_t r = 0; r < b.rows; ++r)
      if (values[r] == value && data.valid(r)) found[i].push_back({summaries[i], r});
  });
  std::vector<Place> all;
  std::vector<uint32_t> with;
  for (const std::vector<Place>& list : found) {
    all.insert(all.end(), list.begin(), list.end());
    if (!list.empty()) with.push_back(list.front().summary);
  }
  (void)rows(with);  // by all cores: whoever asks next finds them
  std::erase_if(all, [&](const Place& p) {
    const Rows r = decode(p.summary);
    return !r || r->track[p.row] == kNoTrack;
  });
  return all;
}

std::vector<Timeline::Place> Timeline::findNear(const std::vector<uint32_t>& summaries, const TimelineRows& around,
                                                size_t row, const Sought& sought) {
  const int64_t from = around.ts[row] - kNear, to = around.ts[row] + around.dur[row] + kNear;
  std::vector<uint32_t> near, far;
  for (uint32_t s : summaries)
    (index_->blocks[s].start <= to && index_->blocks[s].end >= from ? near : far).push_back(s);
  std::vector<Place> found;
  for (std::vector<uint32_t>* part : {&near, &far}) {
    if (found.size() >= sought.enough) break;
    for (const Place& p : find(*part, sought.table, sought.column, sought.value))
      if (const Rows rows = decode(p.summary); rows && sought.accept(p, *rows)) found.push_back(p);
  }
  return found;
}

std::vector<model::SearchHit> Timeline::flowOf(const Place& place, const TimelineRows& drawn, int64_t correlation) {
  const uint32_t track = drawn.track[place.row];
  std::vector<model::SearchHit> flow;
  // Itself and one more.
  for (const Place& p :
       findNear(blocksOfProcess(track), drawn, place.row,
                {trace::tableOf<trace::EventRow>(), trace::events::correlation, correlation, inProcess(track), 2})) {
    const Rows rows = decode(p.summary);
    if (!rows || (p.summary == place.summary && p.row == place.row)) continue;
    flow.push_back({rows->track[p.row], rows->ts[p.row], rows->dur[p.row], rowName(names_, rows->name[p.row]),
                    rowTypeName(rows->type[p.row]), rowId(p.summary, p.row), static_cast<int64_t>(depthOf(p))});
    if (flow.size() == kFlows) break;
  }
  return flow;
}

}  // namespace tracesmith::server
