// Rows of a small table, one after another, with only the columns asked for.
#pragma once

#include <vector>

#include "analysis/names.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::analysis {

/// Calls visit(row, text) for every row; text(column) is a Text column's value in this row. Str slots hold numbers of
/// `names` (or kNull); columns not asked for are kNull.
template <typename Row, typename Visit>
Status eachRow(const trace::Reader& reader, const Names& names, const std::vector<int>& columns, Visit visit) {
  const trace::TableInfo& table = trace::tableOf<Row>();
  trace::Scan scan(reader, table, {}, columns);
  while (scan.next()) {
    const std::vector<uint32_t>& numbers = names.stream(scan.block().stream);
    for (uint32_t r : scan.rows()) {
      Row row;
      auto* slots = reinterpret_cast<int64_t*>(&row);
      for (int c : columns) {
        const trace::ColumnData& data = scan.column(c);
        const trace::Kind kind = table.columns[static_cast<size_t>(c)].kind;
        if (kind == trace::Kind::Text || data.allNull() || !data.valid(r)) continue;
        int64_t slot = trace::slotAt(data, kind, r);
        if (kind == trace::Kind::Str && slot != trace::kNull)
          slot = static_cast<size_t>(slot) < numbers.size() ? numbers[static_cast<size_t>(slot)] : trace::kNull;
        slots[c] = slot;
      }
      visit(row, [&](int column) {
        const trace::ColumnData& data = scan.column(column);
        return data.allNull() || !data.valid(r) ? std::string_view() : data.textAt(r);
      });
    }
  }
  return {};
}

/// A process as the analyses number it: its rank, or −1 − pid.
inline int64_t processOf(int64_t rank, int64_t pid) {
  return rank != trace::kNull ? rank : pid != trace::kNull ? -1 - pid : -1;
}

}  // namespace tracesmith::analysis
