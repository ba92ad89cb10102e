#include "analysis/rows/window.hpp"

#include <map>

#include "trace/rows.hpp"

namespace tracesmith::analysis {

using namespace trace;

Result<std::vector<WindowRow>> window(const Reader& reader, const WindowQuery& query) {
  Selection selection;
  selection.from = query.from;
  selection.to = query.to;
  selection.devices = {query.device};
  RowCursor<EventRow> rows(reader, {}, std::move(selection));
  // The node's id is another one in every stream of the file.
  std::map<uint32_t, int64_t> ids;
  Status failed;
  std::erase_if(rows.blocks(), [&](const Block* block) {
    int64_t low, high;
    if (!failed || !block->zone(events::node, low, high)) return true;
    auto [it, missing] = ids.try_emplace(block->stream, -1);
    if (missing) {
      Result<const Strings*> strings = reader.strings(block->stream);
      if (!strings) failed = strings.status();
      if (strings) it->second = (*strings)->find(query.node);
    }
    return it->second < low || it->second > high;
  });
  TS_TRY(failed);
  std::vector<WindowRow> out;
  while (rows.next())
    if (rows.text(events::node) == query.node)
      out.push_back({rows.row(), &rows.strings(), std::string(rows.text(events::args))});
  TS_TRY(rows.status());
  return out;
}

}  // namespace tracesmith::analysis
