#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/text.hpp"
#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/analysis/comm_matrix.hpp"
#include "tracesmith/analysis/diff.hpp"

namespace tracesmith::analysis {
namespace {

using trace::kNull;

const char* kindName(VerdictKind kind) {
  static constexpr const char* kNames[] = {"none", "rank", "link", "unknown"};
  return kNames[static_cast<int>(kind)];
}

template <typename Kind>
void write(JsonWriter& w, const typename Kind::type& value) {
  using namespace kind;
  if constexpr (std::is_same_v<Kind, Note>)
    value.empty() ? w.null() : w.value(value);
  else if constexpr (std::is_same_v<Kind, Id>)
    value == kNull ? w.null() : w.value(value);
  else if constexpr (std::is_same_v<Kind, Exact>)
    std::isfinite(value) ? w.value(value) : w.null();
  else if constexpr (std::is_same_v<typename Kind::type, double>)  // µs to the ns
    std::isfinite(value) ? w.value(std::round(value * 1000) / 1000) : w.null();
  else if constexpr (std::is_same_v<Kind, Why>)
    w.value(nameOf(value));
  else if constexpr (std::is_same_v<Kind, MaybeWhy>)
    value ? w.value(nameOf(*value)) : w.null();
  else if constexpr (std::is_same_v<Kind, MaybeInt>)
    value ? w.value(*value) : w.null();
  else if constexpr (std::is_same_v<Kind, About>)
    w.value(kindName(value));
  else if constexpr (std::is_same_v<Kind, Notes> || std::is_same_v<Kind, Ids>) {
    w.beginArray();
    for (const auto& item : value) write<std::conditional_t<std::is_same_v<Kind, Ids>, Id, Text>>(w, item);
    w.endArray();
  } else if constexpr (std::is_same_v<Kind, Counts> || std::is_same_v<Kind, Reals>) {
    w.beginArray();
    for (const auto& row : value) {
      w.beginArray();
      for (const auto item : row) write<std::conditional_t<std::is_same_v<Kind, Counts>, Count, Exact>>(w, item);
      w.endArray();
    }
    w.endArray();
  } else if constexpr (std::is_same_v<Kind, ByName>) {
    w.beginObject();
    for (const auto& [name, number] : value) w.field(name, number);
    w.endObject();
  } else {
    w.value(value);
  }
}

template <typename List>
void writeList(JsonWriter& w, const char* key, const List& list);
template <typename Struct>
void writeObject(JsonWriter& w, const Struct& s);

#define STRUCT(Name, doc) void writeFields(JsonWriter& w, const Name& s) {
#define FIELD(Struct, Kind, name, doc) write<kind::Kind>(w.key(#name), s.name);
#define FIELD_AS(Struct, Kind, name, json, doc) write<kind::Kind>(w.key(json), s.name);
#define PART(Struct, Other, name, doc) writeObject(w.key(#name), s.name);
#define MAYBE_PART(Struct, Other, name, doc) \
  w.key(#name);                              \
  s.name ? writeObject(w, *s.name) : void(w.null());
#define PARTS(Struct, Other, name, doc) writeList(w, #name, s.name);
#define PARTS_AS(Struct, Other, name, json, doc) writeList(w, json, s.name);
#define GROUP(Struct, name, doc) w.key(#name).beginObject();
#define END_GROUP(Struct) w.endObject();
#define END_STRUCT(Name) }
#include "tracesmith/model/verdict.def"

template <typename Struct>
void writeObject(JsonWriter& w, const Struct& s) {
  w.beginObject();
  writeFields(w, s);
  w.endObject();
}

template <typename List>
void writeList(JsonWriter& w, const char* key, const List& list) {
  w.key(key).beginArray();
  for (const auto& item : list) writeObject(w, item);
  w.endArray();
}

}  // namespace

std::string toJson(const Analysis& a, const std::string& file) {
  std::string out;
  JsonWriter w(out);
  w.beginObject().field("file", file);
  writeFields(w, a);
  w.endObject();
  return out;
}

std::string toJson(const Diff& d, const std::string& a, const std::string& b) {
  std::string out;
  JsonWriter w(out);
  w.beginObject().field("a", a).field("b", b);
  writeFields(w, d);
  w.endObject();
  return out;
}

std::string matrixHeatmapJson(const CommMatrix::Cells& c) {
  MatrixHeat heat{c.world_size, 0, c.bytes, c.count, c.avg_latency};
  for (size_t a = 0; a < c.world_size; ++a)
    for (size_t b = 0; b < c.world_size; ++b) {
      heat.max_bytes = std::max(heat.max_bytes, c.bytes[a][b]);
      if (c.count[a][b] == 0) heat.avg_latency_us[a][b] = kUnknown;
    }
  std::string out;
  JsonWriter w(out);
  writeObject(w, heat);
  return out;
}

}  // namespace tracesmith::analysis
