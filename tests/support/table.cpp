#include "support/table.hpp"

#include <bit>
#include <stdexcept>

#include "tracesmith/trace/scan.hpp"

namespace tracesmith::test {

using namespace tracesmith::trace;

int64_t Row::i(const std::string& column) const {
  auto it = numbers_.find(column);
  return it == numbers_.end() ? kNull : it->second;
}

double Row::d(const std::string& column) const { return std::bit_cast<double>(i(column)); }

std::string Row::s(const std::string& column) const {
  auto it = texts_.find(column);
  return it == texts_.end() ? "NULL" : it->second;
}

std::vector<Row> rows(const std::string& trace, const std::string& table_name) {
  Result<std::unique_ptr<Reader>> opened = Reader::open(trace);
  if (!opened) throw std::runtime_error(opened.status().message());
  const Reader& reader = **opened;
  const TableInfo* table = findTable(table_name);
  if (!table) throw std::runtime_error("no table " + table_name);
  std::vector<int> columns;
  for (int c = 0; c < static_cast<int>(table->columns.size()); ++c) columns.push_back(c);
  std::vector<Row> out;
  Scan scan(reader, *table, {}, columns);
  while (scan.next()) {
    const Strings* strings = *reader.strings(scan.block().stream);
    for (uint32_t r : scan.rows()) {
      Row& row = out.emplace_back();
      for (int c : columns) {
        const ColumnInfo& info = table->columns[static_cast<size_t>(c)];
        const ColumnData& data = scan.column(c);
        if (!data.valid(r) || data.allNull()) continue;
        if (info.kind == Kind::Text) {
          row.texts_[info.name] = data.textAt(r);
          continue;
        }
        const int64_t slot = slotAt(data, info.kind, r);
        row.numbers_[info.name] = slot;
        if (info.kind == Kind::Str || info.kind == Kind::Launch) row.texts_[info.name] = strings->at(slot);
        if (info.kind == Kind::Type) row.texts_[info.name] = eventTypeName(static_cast<EventType>(slot));
      }
    }
  }
  if (std::string damage = reader.damageSummary(); !damage.empty()) throw std::runtime_error(damage);
  return out;
}

std::vector<Row> rows(const std::string& trace, const std::string& table, const std::string& column,
                      const std::string& text) {
  std::vector<Row> out;
  for (Row& row : rows(trace, table))
    if (row.s(column) == text) out.push_back(std::move(row));
  return out;
}

std::map<std::string, int64_t> losses(const std::string& trace) {
  std::map<std::string, int64_t> out;
  for (const Row& row : rows(trace, "losses")) out[row.s("cause")] += row.i("count");
  return out;
}

}  // namespace tracesmith::test
