#include "model/travel_json.hpp"

#include <charconv>
#include <cmath>

#include "model/json_names.hpp"

namespace tracesmith::model {
namespace {

/// What is drawn: more digits would be bytes nobody sees.
void writeSamples(JsonWriter& w, const std::vector<double>& values) {
  char text[32];
  w.beginArray();
  for (double v : values)
    if (std::isfinite(v))
      w.raw({text, std::to_chars(text, text + sizeof text, v, std::chars_format::general, 6).ptr});
    else
      w.null();
  w.endArray();
}

void writeValues(JsonWriter& w, const kind::Values::type& values) {
  w.beginObject();
  for (const auto& [name, value] : values) {
    w.key(name);
    value ? w.value(*value) : w.null();
  }
  w.endObject();
}

template <typename Kind>
void write(JsonWriter& w, const typename Kind::type& value) {
  using namespace kind;
  if constexpr (std::is_same_v<Kind, Note>)
    value.empty() ? w.null() : w.value(value);
  else if constexpr (std::is_same_v<Kind, Index>)
    value < 0 ? w.null() : w.value(value);
  else if constexpr (std::is_same_v<Kind, Moment>)
    value == 0 ? w.null() : w.value(std::to_string(value));
  else if constexpr (std::is_same_v<Kind, Time> || std::is_same_v<Kind, Wide>)
    w.value(std::to_string(value));
  else if constexpr (std::is_same_v<Kind, U32>)
    w.value(static_cast<uint64_t>(value));
  else if constexpr (std::is_same_v<Kind, Share>)
    w.value(std::round(value * 1000) / 1000);
  else if constexpr (std::is_same_v<Kind, Samples>)
    writeSamples(w, value);
  else if constexpr (std::is_same_v<Kind, Values>)
    writeValues(w, value);
  else
    w.value(value);
}

template <typename Kind>
void writeMaybe(JsonWriter& w, const std::optional<typename Kind::type>& value) {
  value ? write<Kind>(w, *value) : void(w.null());
}

template <typename List, typename Each>
void writeList(JsonWriter& w, const List& list, Each each) {
  w.beginArray();
  for (const auto& item : list) each(w, item);
  w.endArray();
}

}  // namespace

#define STRUCT(Name, Message, doc) void writeFields(JsonWriter& w, const Name& s) {
#define STRUCT_OF(Name, Message, Base, doc) \
  STRUCT(Name, Message, doc)                \
  writeFields(w, static_cast<const Base&>(s));
#define FIELD(Struct, Kind, name, doc) \
  w.key(jsonName<kind::Kind>(#name));  \
  write<kind::Kind>(w, s.name);
#define MAYBE(Struct, Kind, name, doc) \
  w.key(jsonName<kind::Kind>(#name));  \
  writeMaybe<kind::Kind>(w, s.name);
#define LIST(Struct, Kind, name, most, doc) \
  w.key(#name);                             \
  writeList(w, s.name, [](JsonWriter& to, const auto& item) { write<kind::Kind>(to, item); });
#define CHOICE(Struct, Enum, name, doc) w.field(#name, nameOf(s.name));
#define PART(Struct, Other, name, doc) \
  w.key(#name);                        \
  writeJson(w, s.name);
#define MAYBE_PART(Struct, Other, name, doc) \
  w.key(#name);                              \
  s.name ? writeJson(w, *s.name) : void(w.null());
#define PARTS(Struct, Other, name, most, doc) \
  w.key(#name);                               \
  writeList(w, s.name, [](JsonWriter& to, const Other& item) { writeJson(to, item); });
#define END_STRUCT(Name)                         \
  }                                              \
  void writeJson(JsonWriter& w, const Name& s) { \
    w.beginObject();                             \
    writeFields(w, s);                           \
    w.endObject();                               \
  }
#define TUPLE(Name, doc)                         \
  void writeJson(JsonWriter& w, const Name& s) { \
    w.beginArray();
#define ITEM(Tuple, Kind, name, doc) write<kind::Kind>(w, s.name);
#define END_TUPLE(Name) \
  w.endArray();         \
  }
#define WITH_ANSWERS
#include "model/travel.def"

}  // namespace tracesmith::model
