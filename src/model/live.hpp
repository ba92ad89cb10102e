// Tables of what runs now, declared in live.def: their rows, and the same as cells for whoever shows any table.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/travel.hpp"

namespace tracesmith::model {

/// No value, or one of its column's type.
using LiveCell = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>>;
using LiveCells = std::vector<LiveCell>;

struct LiveColumn {
  enum class Type { boolean, integer, real, text, integers };
  const char* name;
  Type type;
  const char* doc;
};

struct LiveTable {
  const char* name;
  const char* doc;
  std::vector<LiveColumn> columns;
};

const std::vector<LiveTable>& liveTables();
/// nullptr: there is none of that name.
const LiveTable* findLiveTable(std::string_view name);

#define LIVE_TABLE(Row, table, doc) struct Row {
#define FIELD(Row, Kind, name, doc) kind::Kind::type name = kind::Kind::none();
#define MAYBE(Row, Kind, name, doc) std::optional<kind::Kind::type> name;
#define COLUMNS_OF(Row, Struct) const Struct* of = nullptr;
#define END_LIVE_TABLE(Row) \
  }                         \
  ;                         \
  LiveCells cellsOf(const Row& row);
#include "model/live.def"

}  // namespace tracesmith::model
