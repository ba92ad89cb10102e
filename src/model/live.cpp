#include "model/live.hpp"

#include <type_traits>

namespace tracesmith::model {
namespace {

using Type = LiveColumn::Type;

template <typename Kind>
constexpr bool kPlain = !std::is_same_v<Kind, kind::Samples> && !std::is_same_v<Kind, kind::Values>;

template <typename Kind>
constexpr Type typeOf() {
  using Value = typename Kind::type;
  if constexpr (std::is_same_v<Value, std::string>) return Type::text;
  if constexpr (std::is_same_v<Value, bool>) return Type::boolean;
  return std::is_same_v<Value, double> ? Type::real : Type::integer;
}

template <typename Kind>
void addColumn(std::vector<LiveColumn>& columns, const char* name, const char* doc) {
  if constexpr (kPlain<Kind>) columns.push_back({name, typeOf<Kind>(), doc});
}

template <typename Kind>
LiveCell cellOf(const typename Kind::type& value) {
  using Value = typename Kind::type;
  if constexpr (std::is_same_v<Kind, kind::Note>) return value.empty() ? LiveCell() : LiveCell(value);
  if constexpr (std::is_same_v<Kind, kind::Index>) return value < 0 ? LiveCell() : LiveCell(int64_t{value});
  if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>)
    return LiveCell(static_cast<int64_t>(value));
  else
    return LiveCell(value);
}

template <typename Kind>
void addCell(LiveCells& cells, const typename Kind::type& value) {
  if constexpr (kPlain<Kind>) cells.push_back(cellOf<Kind>(value));
}

template <typename Kind>
void addCell(LiveCells& cells, const std::optional<typename Kind::type>& value) {
  if constexpr (kPlain<Kind>) cells.push_back(value ? cellOf<Kind>(*value) : LiveCell());
}

template <typename Kind>
void addListColumn(std::vector<LiveColumn>& columns, const char* name, const char* doc) {
  if constexpr (std::is_integral_v<typename Kind::type>) columns.push_back({name, Type::integers, doc});
}

template <typename Kind>
void addList(LiveCells& cells, const std::vector<typename Kind::type>& values) {
  if constexpr (std::is_integral_v<typename Kind::type>)
    cells.emplace_back(std::vector<int64_t>(values.begin(), values.end()));
}

/// The plain values of a struct that travels.
template <typename T>
struct Columns;
template <typename T>
struct Cells;

#define STRUCT(Name, Message, doc) \
  template <>                      \
  struct Columns<Name> {           \
    static void add([[maybe_unused]] std::vector<LiveColumn>& to) {
#define STRUCT_OF(Name, Message, Base, doc) \
  STRUCT(Name, Message, doc)                \
  Columns<Base>::add(to);
#define FIELD(Struct, Kind, name, doc) addColumn<kind::Kind>(to, #name, doc);
#define MAYBE(Struct, Kind, name, doc) FIELD(Struct, Kind, name, doc)
#define LIST(Struct, Kind, name, most, doc) addListColumn<kind::Kind>(to, #name, doc);
#define CHOICE(Struct, Enum, name, doc) to.push_back({#name, Type::text, doc});
#define END_STRUCT(Name) \
  }                      \
  }                      \
  ;
#include "model/travel.def"

#define STRUCT(Name, Message, doc) \
  template <>                      \
  struct Cells<Name> {             \
    static void add([[maybe_unused]] LiveCells& to, [[maybe_unused]] const Name& from) {
#define STRUCT_OF(Name, Message, Base, doc) \
  STRUCT(Name, Message, doc)                \
  Cells<Base>::add(to, from);
#define FIELD(Struct, Kind, name, doc) addCell<kind::Kind>(to, from.name);
#define MAYBE(Struct, Kind, name, doc) FIELD(Struct, Kind, name, doc)
#define LIST(Struct, Kind, name, most, doc) addList<kind::Kind>(to, from.name);
#define CHOICE(Struct, Enum, name, doc) to.emplace_back(std::string(nameOf(from.name)));
#define END_STRUCT(Name) \
  }                      \
  }                      \
  ;
#include "model/travel.def"

std::vector<LiveTable> makeTables() {
  std::vector<LiveTable> tables;
#define LIVE_TABLE(Row, table, doc)      \
  {                                      \
    tables.push_back({#table, doc, {}}); \
    std::vector<LiveColumn>& to = tables.back().columns;
#define FIELD(Row, Kind, name, doc) addColumn<kind::Kind>(to, #name, doc);
#define MAYBE(Row, Kind, name, doc) FIELD(Row, Kind, name, doc)
#define COLUMNS_OF(Row, Struct) Columns<Struct>::add(to);
#define END_LIVE_TABLE(Row) }
#include "model/live.def"
  return tables;
}

}  // namespace

const std::vector<LiveTable>& liveTables() {
  static const std::vector<LiveTable> tables = makeTables();
  return tables;
}

const LiveTable* findLiveTable(std::string_view name) {
  for (const LiveTable& table : liveTables())
    if (table.name == name) return &table;
  return nullptr;
}

#define LIVE_TABLE(Row, table, doc)   \
  LiveCells cellsOf(const Row& row) { \
    LiveCells to;
#define FIELD(Row, Kind, name, doc) addCell<kind::Kind>(to, row.name);
#define MAYBE(Row, Kind, name, doc) FIELD(Row, Kind, name, doc)
#define COLUMNS_OF(Row, Struct) Cells<Struct>::add(to, *row.of);
#define END_LIVE_TABLE(Row) \
  return to;                \
  }
#include "model/live.def"

}  // namespace tracesmith::model
