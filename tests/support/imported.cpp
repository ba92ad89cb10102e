#include "support/imported.hpp"

#include <cstdio>
#include <stdexcept>

#include "tracesmith/trace/reader.hpp"

namespace tracesmith::test {

using namespace trace;

std::vector<Row> table(const std::string& path, const std::string& name) {
  Result<std::unique_ptr<Reader>> opened = Reader::open(path);
  if (!opened) throw std::runtime_error(opened.status().message());
  const Reader& reader = **opened;
  const TableInfo* info = findTable(name);
  if (!info) throw std::runtime_error("no table " + name);
  if (!reader.closed()) throw std::runtime_error(path + " is not closed");
  std::vector<Row> out;
  BlockDecoder decoder(reader);
  for (const Block* block : reader.blocks(*info)) {
    size_t first = out.size();
    out.resize(first + block->rows);
    const Strings* strings = *reader.strings(block->stream);
    for (size_t c = 0; c < info->columns.size(); ++c) {
      ColumnData data;
      Status decoded = decoder.decode(*block, static_cast<int>(c), data);
      if (!decoded) throw std::runtime_error(decoded.message());
      const ColumnInfo& column = info->columns[c];
      for (size_t i = 0; i < block->rows; ++i) {
        int64_t slot = slotAt(data, column.kind, i);
        if (slot == kNull) continue;
        std::string& cell = out[first + i][column.name];
        char buffer[40];
        switch (column.kind) {
          case Kind::Str:
          case Kind::Launch:
            cell = strings->at(slot);
            break;
          case Kind::Text:
            cell = data.textAt(i);
            break;
          case Kind::Type:
            cell = eventTypeName(static_cast<EventType>(slot));
            break;
          case Kind::Real:
            std::snprintf(buffer, sizeof buffer, "%.15g", data.realAt(i));
            cell = buffer;
            break;
          default:
            cell = std::to_string(slot);
        }
      }
    }
  }
  if (!reader.damageSummary().empty()) throw std::runtime_error(reader.damageSummary());
  return out;
}

std::string at(const Row& row, const std::string& column) {
  auto it = row.find(column);
  return it == row.end() ? "NULL" : it->second;
}

Row only(const std::vector<Row>& rows, const std::string& column, const std::string& value) {
  const Row* found = nullptr;
  for (const Row& row : rows) {
    if (at(row, column) != value) continue;
    if (found) throw std::runtime_error("several rows have " + column + " = " + value);
    found = &row;
  }
  if (!found) throw std::runtime_error("no row has " + column + " = " + value);
  return *found;
}

}  // namespace tracesmith::test
