#include "analysis/rows/window.hpp"

#include <algorithm>
#include <map>

#include "tracesmith/trace/scan.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

/// Strings of the streams met so far, and the id of the node in each.
class Streams {
 public:
  Streams(const Reader& reader, const std::string& node) : reader_(reader), node_(node) {}

  struct Stream {
    const Strings* strings = nullptr;
    int64_t node = -1;
  };
  Result<Stream> get(uint32_t id) {
    auto [it, missing] = known_.try_emplace(id);
    if (missing) {
      Result<const Strings*> strings = reader_.strings(id);
      if (!strings) return strings.status();
      it->second = {*strings, (*strings)->find(node_)};
    }
    return it->second;
  }

 private:
  const Reader& reader_;
  const std::string& node_;
  std::map<uint32_t, Stream> known_;
};

}  // namespace

Result<std::vector<WindowRow>> window(const Reader& reader, const WindowQuery& query) {
  const TableInfo& table = tableOf<EventRow>();
  Selection selection;
  selection.from = query.from;
  selection.to = query.to;
  selection.devices = {query.device};
  std::vector<int> columns;
  for (int c = 0; c < events::kColumns; ++c) columns.push_back(c);
  Scan scan(reader, table, selection, columns);
  Streams streams(reader, query.node);
  Status failed;
  std::erase_if(scan.blocks(), [&](const Block* block) {
    int64_t low, high;
    if (!failed || !block->zone(events::node, low, high)) return true;
    Result<Streams::Stream> stream = streams.get(block->stream);
    if (!stream) failed = stream.status();
    return !stream || stream->node < low || stream->node > high;
  });
  TS_TRY(failed);
  std::vector<WindowRow> out;
  while (scan.next()) {
    Result<Streams::Stream> stream = streams.get(scan.block().stream);
    if (!stream) return stream.status();
    const ColumnData& node = scan.column(events::node);
    const size_t first = out.size();
    for (uint32_t row : scan.rows()) {
      if (slotAt(node, Kind::Str, row) != stream->node) continue;
      out.push_back({{}, stream->strings, {}});
      if (const ColumnData& args = scan.column(events::args); args.valid(row)) out.back().args = args.textAt(row);
    }
    for (int c : columns) {
      const ColumnData& data = scan.column(c);
      const Kind kind = table.columns[static_cast<size_t>(c)].kind;
      size_t i = first;
      for (uint32_t row : scan.rows())
        if (slotAt(node, Kind::Str, row) == stream->node)
          reinterpret_cast<int64_t*>(&out[i++].row)[c] = data.allNull() ? kNull : slotAt(data, kind, row);
    }
  }
  return out;
}

}  // namespace tracesmith::analysis
