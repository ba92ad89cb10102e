#include <algorithm>
#include <cstdio>
#include <map>
#include <queue>

#include "base/text.hpp"
#include "cli/terminal.hpp"
#include "cli/view.hpp"
#include "trace/export/export.hpp"

namespace tracesmith::cli {
namespace {

using namespace trace;

/// Where a row is, and when.
struct Found {
  int64_t ts, dur;
  size_t block;  // place among those visited
  uint32_t row;
  /// What encloses comes before what it encloses.
  bool operator<(const Found& o) const {
    return ts != o.ts ? ts < o.ts : dur != o.dur ? dur > o.dur : block != o.block ? block < o.block : row < o.row;
  }
};

/// The first rows in time: blocks are visited by their first ts, until none can have an earlier row than those found.
Result<std::vector<Found>> firstRows(BlockRows& rows, std::vector<const Block*>& blocks, const CommonClock* clock,
                                     int ts_column, int dur_column, size_t count) {
  auto start = [&](const Block* b) {
    int64_t low, high;
    return ts_column < 0 ? 0 : blockTimes(*b, clock, low, high) ? low : INT64_MAX;
  };
  std::stable_sort(blocks.begin(), blocks.end(), [&](const Block* a, const Block* b) { return start(a) < start(b); });
  std::priority_queue<Found> best;  // the latest on top
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (best.size() >= count && start(blocks[i]) > best.top().ts) break;
    if (!rows.load(*blocks[i])) {
      TS_TRY(rows.status());
      continue;
    }
    for (uint32_t r : rows.rows()) {
      int64_t ts = ts_column < 0 ? 0 : rows.slot(ts_column, r);
      Found found{ts == kNull ? INT64_MAX : ts, dur_column < 0 ? 0 : rows.slot(dur_column, r), i, r};
      if (best.size() < count) {
        best.push(found);
      } else if (found < best.top()) {
        best.pop();
        best.push(found);
      }
    }
  }
  std::vector<Found> out(best.size());
  for (size_t i = out.size(); i-- > 0; best.pop()) out[i] = best.top();
  return out;
}

std::string microseconds(int64_t ns) {
  auto magnitude = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  char rest[8];
  std::snprintf(rest, sizeof rest, ".%03u", static_cast<unsigned>(magnitude % 1000));
  return (ns < 0 ? "-" : "") + humanCount(magnitude / 1000) + rest;
}

/// ts − start, whatever a file may hold.
int64_t after(int64_t ts, int64_t start) {
  return static_cast<int64_t>(static_cast<uint64_t>(ts) - static_cast<uint64_t>(start));
}

std::string number(int64_t v) { return v == kNull ? "" : std::to_string(v); }

std::string where(const Row& row) {
  int64_t device = row.slot(events::device), stream = row.slot(events::stream);
  if (device != kNull || stream != kNull)
    return "GPU " + number(device) + (stream == kNull ? "" : " s" + number(stream));
  return row.slot(events::tid) == kNull ? "" : "t" + number(row.slot(events::tid));
}

using Cells = std::vector<std::string>;

Cells eventHeading() { return {"start µs", "duration", "type", "rank", "where", "bytes", "name"}; }

Cells eventCells(const Row& row, int64_t start_ns) {
  int64_t ts = row.slot(events::ts), dur = row.slot(events::dur), bytes = row.slot(events::bytes);
  return {ts == kNull ? "" : microseconds(after(ts, start_ns)),
          dur == kNull ? "" : humanNs(static_cast<double>(dur)),
          eventTypeName(static_cast<EventType>(row.slot(events::type))),
          number(row.slot(events::rank)),
          where(row),
          bytes < 0 ? "" : humanBytes(static_cast<uint64_t>(bytes)),
          printable(row.text(events::name))};
}

/// Any other table: its columns as they are, but times and durations for people.
Cells heading(const TableInfo& table) {
  Cells out;
  for (const ColumnInfo& c : table.columns) out.push_back(std::string_view(c.name) == "ts" ? "start µs" : c.name);
  return out;
}

Cells cells(const TableInfo& table, const Row& row, int64_t start_ns) {
  Cells out;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const int c = static_cast<int>(i);
    const std::string_view name = table.columns[i].name;
    const Kind kind = table.columns[i].kind;
    std::string text;
    if (kind == Kind::Str || kind == Kind::Text || kind == Kind::Launch) {
      text = printable(row.text(c));
    } else if (int64_t v = row.slot(c); v != kNull && kind != Kind::Sum) {
      if (kind == Kind::Real)
        appendJsonNumber(text, std::bit_cast<double>(v));
      else
        text = name == "ts"    ? microseconds(after(v, start_ns))
               : name == "dur" ? humanNs(static_cast<double>(v))
                               : std::to_string(v);
    }
    out.push_back(std::move(text));
  }
  return out;
}

/// Leaves out empty columns, and shortens the longest texts until a line fits; what still does not fit is cut off.
void print(std::vector<Cells> table, size_t width) {
  for (size_t c = table[0].size(); c-- > 0;)
    if (std::all_of(table.begin() + 1, table.end(), [&](const Cells& row) { return row[c].empty(); }))
      for (Cells& row : table) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
  std::vector<size_t> widths(table[0].size());
  for (const Cells& row : table)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], displayWidth(row[c]));
  size_t total = widths.empty() ? 0 : 2 * (widths.size() - 1);
  for (size_t w : widths) total += w;
  constexpr size_t kLeast = 12;  // of a text that was shortened
  while (total > width) {
    auto longest = std::max_element(widths.begin(), widths.end());
    if (longest == widths.end() || *longest <= kLeast) break;
    --*longest;
    --total;
  }
  size_t shown = widths.size();
  for (; total > width && shown > 1; --shown) total -= widths[shown - 1] + 2;
  for (Cells& row : table) {
    row.resize(shown);
    for (size_t c = 0; c < shown; ++c) row[c] = shorten(row[c], widths[c]);
  }
  std::printf("%s", tableText(table).c_str());
  if (shown < widths.size()) std::printf("(%zu more columns: --width, --json)\n", widths.size() - shown);
}

}  // namespace

Status viewRows(const Reader& reader, const TableInfo& table, const Selection& selection, const ViewOptions& o) {
  const int ts = table.find("ts"), dur = table.find("dur");
  std::vector<Found> found;
  std::vector<const Block*> blocks;
  {
    std::vector<int> columns = {ts >= 0 ? ts : 0};
    if (dur >= 0) columns.push_back(dur);
    BlockRows times(reader, table, selection, columns);
    blocks = times.candidates();
    Result<std::vector<Found>> first = firstRows(times, blocks, selection.clock, ts, dur, o.count);
    if (!first) return first.status();
    found = std::move(*first);
  }
  // Only now all columns of the rows that are shown, each block once.
  std::map<size_t, std::vector<size_t>> by_block;
  for (size_t i = 0; i < found.size(); ++i) by_block[found[i].block].push_back(i);
  const bool is_events = &table == &tableOf<EventRow>();
  std::vector<Cells> shown(found.size());
  std::vector<std::string> json(found.size());
  BlockRows rows(reader, table, selection, {});
  for (const auto& [block, numbers] : by_block) {
    if (!rows.load(*blocks[block])) {
      TS_TRY(rows.status());
      continue;
    }
    for (size_t i : numbers) {
      Row row{&rows, found[i].row};
      if (o.json)
        appendJsonRow(json[i], table, row);
      else
        shown[i] = is_events ? eventCells(row, o.start_ns) : cells(table, row, o.start_ns);
    }
  }
  if (o.json) {
    std::erase_if(json, [](const std::string& s) { return s.empty(); });
    std::printf("[");
    for (size_t i = 0; i < json.size(); ++i) std::printf("%s\n%s", i ? "," : "", json[i].c_str());
    std::printf("\n]\n");
    return {};
  }
  std::erase_if(shown, [](const Cells& c) { return c.empty(); });
  if (shown.empty()) {
    std::printf("no rows\n");
    return {};
  }
  size_t count = shown.size();
  shown.insert(shown.begin(), is_events ? eventHeading() : heading(table));
  print(std::move(shown), o.width);
  if (selection.all() && count < reader.rows(table))
    std::printf("(%s of %s rows; -n shows more)\n", humanCount(count).c_str(), humanCount(reader.rows(table)).c_str());
  else if (count == o.count)
    std::printf("(first %s rows; -n shows more)\n", humanCount(count).c_str());
  return {};
}

}  // namespace tracesmith::cli
