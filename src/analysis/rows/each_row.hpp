// Rows of a small table, one after another, with only the columns asked for.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "analysis/rows/names.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::analysis {

/// Puts a column of `count` rows from `first` on into slots that lie `stride` apart. NULLs stay as they are.
inline void fillSlots(const trace::ColumnData& data, trace::Kind kind, const std::vector<uint32_t>& numbers,
                      size_t first, size_t count, int64_t* slots, size_t stride) {
  auto fill = [&](const auto* values, auto convert) {
    for (size_t i = 0; i < count; ++i)
      if (data.valid(first + i)) slots[i * stride] = convert(values[first + i]);
  };
  auto same = [](int64_t v) { return v; };
  if (kind == trace::Kind::Text || data.allNull()) return;
  if (kind == trace::Kind::Type)
    fill(data.data<uint8_t>(), same);
  else if (kind == trace::Kind::Int32)
    fill(data.data<int32_t>(), same);
  else if (kind == trace::Kind::Launch)
    fill(data.data<uint32_t>(), same);
  else if (kind == trace::Kind::Str)
    fill(data.data<uint32_t>(), [&](uint32_t v) { return v < numbers.size() ? int64_t{numbers[v]} : trace::kNull; });
  else
    fill(data.data<int64_t>(), same);
}

/// Calls visit(row, text) for every row; text(column) is a Text column's value in this row. Str slots hold numbers of
/// `names` (or kNull); columns not asked for are kNull.
template <typename Row, typename Visit>
Status eachRow(const trace::Reader& reader, const Names& names, const std::vector<int>& columns, Visit visit) {
  constexpr size_t kAtOnce = 512;  // rows that stay in the cache while they are filled column by column
  constexpr size_t kSlots = sizeof(Row) / sizeof(int64_t);
  const trace::TableInfo& table = trace::tableOf<Row>();
  trace::Scan scan(reader, table, {}, columns);
  std::vector<Row> rows;
  while (scan.next()) {
    const std::vector<uint32_t>& numbers = names.stream(scan.block().stream);
    for (size_t first = 0; first < scan.block().rows; first += kAtOnce) {
      rows.assign(std::min<size_t>(kAtOnce, scan.block().rows - first), Row());
      for (int c : columns)
        fillSlots(scan.column(c), table.columns[static_cast<size_t>(c)].kind, numbers, first, rows.size(),
                  reinterpret_cast<int64_t*>(rows.data()) + c, kSlots);
      for (size_t i = 0; i < rows.size(); ++i)
        visit(std::as_const(rows[i]), [&](int column) {
          const trace::ColumnData& data = scan.column(column);
          return data.allNull() || !data.valid(first + i) ? std::string_view() : data.textAt(first + i);
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
