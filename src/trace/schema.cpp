#include "tracesmith/trace/schema.hpp"

#include <charconv>
#include <cstring>
#include <iterator>

namespace tracesmith::trace {
namespace {

#define TABLE(table, Row, number, doc) constexpr ColumnInfo table##_columns[] = {
#define COLUMN(table, number, name, kind, doc) {number, #name, Kind::kind, doc},
#define END_TABLE(table) \
  }                      \
  ;
#include "tracesmith/trace/schema.def"

constexpr TableInfo kTables[] = {
#define TABLE(table, Row, number, doc) {number, #table, doc, table##_columns},
#define COLUMN(table, number, name, kind, doc)
#define END_TABLE(table)
#include "tracesmith/trace/schema.def"
};

enum TableIndex {
#define TABLE(table, Row, number, doc) table##_index,
#define COLUMN(table, number, name, kind, doc)
#define END_TABLE(table)
#include "tracesmith/trace/schema.def"
};

constexpr const char* kTypeNames[kEventTypes] = {"kernel",         "memcpy", "memset",   "runtime", "driver",
                                                 "sync",           "graph",  "overhead", "cpu_op",  "annotation",
                                                 "gpu_annotation", "python", "marker",   "other"};

}  // namespace

#define TABLE(table, Row, number, doc)                                                                    \
  static_assert(sizeof(Row) == std::size(table##_columns) * sizeof(int64_t), "rows are arrays of slots"); \
  template <>                                                                                             \
  const TableInfo& tableOf<Row>() {                                                                       \
    return kTables[table##_index];                                                                        \
  }
#define COLUMN(table, number, name, kind, doc)
#define END_TABLE(table)
#include "tracesmith/trace/schema.def"

int TableInfo::find(std::string_view column) const {
  for (size_t i = 0; i < columns.size(); ++i)
    if (column == columns[i].name) return static_cast<int>(i);
  return -1;
}

const char* eventTypeName(EventType type) {
  auto i = static_cast<unsigned>(type);
  return kTypeNames[i < kEventTypes ? i : kEventTypes - 1];
}

bool parseEventType(std::string_view name, EventType& type) {
  for (int i = 0; i < kEventTypes; ++i)
    if (name == kTypeNames[i]) {
      type = static_cast<EventType>(i);
      return true;
    }
  return false;
}

std::span<const TableInfo> tables() { return kTables; }

const TableInfo* findTable(std::string_view name) {
  for (const TableInfo& t : kTables)
    if (name == t.name) return &t;
  return nullptr;
}

const TableInfo* findTable(uint16_t id) {
  for (const TableInfo& t : kTables)
    if (id == t.id) return &t;
  return nullptr;
}

const char* const kLaunchFieldNames[kLaunchFields] = {
    "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "shared_static", "shared_dynamic"};

std::string LaunchShape::text() const {
  const int32_t fields[kLaunchFields] = {grid_x,  grid_y,    grid_z,        block_x,       block_y,
                                         block_z, registers, shared_static, shared_dynamic};
  std::string out;
  for (int i = 0; i < kLaunchFields; ++i) {
    if (i) out += ',';
    if (fields[i] >= 0) out += std::to_string(fields[i]);
  }
  return out;
}

LaunchShape LaunchShape::parse(std::string_view s) {
  LaunchShape shape;
  int32_t* const fields[kLaunchFields] = {&shape.grid_x,    &shape.grid_y,        &shape.grid_z,
                                          &shape.block_x,   &shape.block_y,       &shape.block_z,
                                          &shape.registers, &shape.shared_static, &shape.shared_dynamic};
  for (int i = 0; i < kLaunchFields; ++i) {
    size_t comma = s.find(',');
    std::string_view field = s.substr(0, comma);
    int32_t v = -1;
    auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), v);
    if (error == std::errc() && end == field.data() + field.size() && v >= 0) *fields[i] = v;
    if (comma == std::string_view::npos) break;
    s.remove_prefix(comma + 1);
  }
  return shape;
}

}  // namespace tracesmith::trace
