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

std::span<const LaunchField, kLaunchFields> launchFields() {
  static constexpr LaunchField kFields[kLaunchFields] = {
      {"grid_x", &LaunchShape::grid_x, "blocks of a kernel's grid in x"},
      {"grid_y", &LaunchShape::grid_y, "blocks in y"},
      {"grid_z", &LaunchShape::grid_z, "blocks in z"},
      {"block_x", &LaunchShape::block_x, "threads of a block in x"},
      {"block_y", &LaunchShape::block_y, "threads in y"},
      {"block_z", &LaunchShape::block_z, "threads in z"},
      {"registers", &LaunchShape::registers, "registers of a thread"},
      {"shared_static", &LaunchShape::shared_static, "static shared bytes"},
      {"shared_dynamic", &LaunchShape::shared_dynamic, "dynamic shared bytes"},
  };
  return kFields;
}

std::string LaunchShape::text() const {
  std::string out;
  for (const LaunchField& field : launchFields()) {
    if (field.value != &LaunchShape::grid_x) out += ',';
    if (const std::optional<int32_t> v = this->*field.value; v && *v >= 0) out += std::to_string(*v);
  }
  return out;
}

LaunchShape LaunchShape::parse(std::string_view s) {
  LaunchShape shape;
  for (const LaunchField& field : launchFields()) {
    const size_t comma = s.find(',');
    const std::string_view text = s.substr(0, comma);
    int32_t v = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error == std::errc() && end == text.data() + text.size() && v >= 0) shape.*field.value = v;
    if (comma == std::string_view::npos) break;
    s.remove_prefix(comma + 1);
  }
  return shape;
}

}  // namespace tracesmith::trace
