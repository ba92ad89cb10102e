// The tables of a trace, from the one declaration in schema.def.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tracesmith/common/export.hpp"

namespace tracesmith::trace {

/// Value of a row slot that was not measured.
constexpr int64_t kNull = std::numeric_limits<int64_t>::min();
/// In nodes.os and devices.vendor: no real machine was measured.
constexpr std::string_view kSimulated = "simulated";

/// Kinds of columns as schema.def names them.
enum class Kind : uint8_t { Int, Int32, Real, Str, Type, Text, Launch, Sum };

struct ColumnInfo {
  uint16_t id;  ///< number on disk
  const char* name;
  Kind kind;
  const char* doc;
};

struct TRACESMITH_API TableInfo {
  uint16_t id;  ///< number on disk
  const char* name;
  const char* doc;
  std::span<const ColumnInfo> columns;

  /// Index of the column called `name`, or -1.
  int find(std::string_view column) const;
};

/// What an event is. The numbers are on disk; `other` is last and also stands for types of a newer version.
enum class EventType : uint8_t {
  kernel,
  memcpy,
  memset,
  runtime,
  driver,
  sync,
  graph,
  overhead,
  cpu_op,
  annotation,
  gpu_annotation,
  python,
  marker,
  other
};
constexpr int kEventTypes = 14;
TRACESMITH_API const char* eventTypeName(EventType type);
/// False if `name` is not the name of a type.
TRACESMITH_API bool parseEventType(std::string_view name, EventType& type);
/// True for rows that happened on a device: kernels, copies, graphs, device-side annotations.
constexpr bool isDeviceType(EventType t) {
  return t == EventType::kernel || t == EventType::memcpy || t == EventType::memset || t == EventType::gpu_annotation ||
         t == EventType::graph;
}

// Row types: one int64 slot per column, all NULL to begin with.
// A Str, Text or Launch slot holds an id from Writer::string / Appender::text / Writer::launch; a Real slot holds
// real(x).
#define TABLE(table, Row, number, doc) struct Row {
#define COLUMN(table, number, name, kind, doc) int64_t name = kNull;
#define END_TABLE(table) \
  }                      \
  ;
#include "tracesmith/trace/schema.def"

/// Column indexes: `events::ts`, `collectives::bytes`, …
#define TABLE(table, Row, number, doc) \
  namespace table {                    \
  enum Column : int {
#define COLUMN(table, number, name, kind, doc) name,
#define END_TABLE(table) \
  kColumns               \
  }                      \
  ;                      \
  }
#include "tracesmith/trace/schema.def"

/// Table of a row type: `tableOf<EventRow>()`.
template <typename Row>
TRACESMITH_API const TableInfo& tableOf();
#define TABLE(table, Row, number, doc) \
  template <>                          \
  TRACESMITH_API const TableInfo& tableOf<Row>();
#define COLUMN(table, number, name, kind, doc)
#define END_TABLE(table)
#include "tracesmith/trace/schema.def"

/// All tables, in the order of schema.def.
TRACESMITH_API std::span<const TableInfo> tables();
TRACESMITH_API const TableInfo* findTable(std::string_view name);
TRACESMITH_API const TableInfo* findTable(uint16_t id);

/// A double as a row slot; NaN becomes NULL.
inline int64_t real(double v) {
  if (v != v) return kNull;
  return v == 0 ? 0 : std::bit_cast<int64_t>(v);  // -0.0 has the bits of kNull
}

/// Launch shape of a kernel; what is not known is empty. Numbers are not negative.
struct TRACESMITH_API LaunchShape {
  std::optional<int32_t> grid_x = {}, grid_y = {}, grid_z = {};
  std::optional<int32_t> block_x = {}, block_y = {}, block_z = {};
  std::optional<int32_t> registers = {}, shared_static = {}, shared_dynamic = {};

  bool operator==(const LaunchShape&) const = default;
  std::string text() const;                      ///< as the file keeps it: "128,1,1,256,1,1,32,,4096"
  static LaunchShape parse(std::string_view s);  ///< empty where it does not parse
};
constexpr int kLaunchFields = 9;
struct LaunchField {
  const char* name;  ///< in SQL
  std::optional<int32_t> LaunchShape::*value;
  const char* doc;
};
/// In the order in which the file has them: grid_x, …, shared_dynamic.
TRACESMITH_API std::span<const LaunchField, kLaunchFields> launchFields();

}  // namespace tracesmith::trace
