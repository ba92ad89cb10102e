#include "model/travel_json.hpp"

#include "model/json_names.hpp"

namespace tracesmith::model {
namespace {

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
#include "model/travel.def"

void writeTime(JsonWriter& w, std::string_view key, int64_t ns) { w.field(key, std::to_string(ns)); }

std::string hangJson(const HangVerdict& verdict, const std::vector<Alert>& alerts) {
  std::string text;
  JsonWriter w(text);
  w.beginObject();
  writeFields(w, verdict);
  w.key("alerts");
  writeList(w, alerts, [](JsonWriter& to, const Alert& alert) { writeJson(to, alert); });
  w.endObject();
  return text;
}

}  // namespace tracesmith::model
