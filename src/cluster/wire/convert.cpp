#include "cluster/wire/convert.hpp"

#include <algorithm>
#include <type_traits>

namespace tracesmith::cluster {

using namespace model;

namespace {

constexpr size_t kLongestText = 4096;  // of a text from a message

template <typename T>
T bounded(const T& value) {
  if constexpr (std::is_same_v<T, std::string>)
    return value.substr(0, kLongestText);
  else
    return value;
}

template <typename Kind>
constexpr bool kIsIndex = std::is_same_v<Kind, kind::Index>;

// put: the fields of a struct into a message. An index that is not known is not there.
#define STRUCT(Name, Message, doc) \
  template <typename M>            \
  void put(const Name& s, M& m) {
#define STRUCT_OF(Name, Message, Base, doc) \
  STRUCT(Name, Message, doc)                \
  put(static_cast<const Base&>(s), m);
#define FIELD(Struct, Kind, name, doc) \
  if (!kIsIndex<kind::Kind> || s.name != kind::Kind::none()) m.set_##name(s.name);
#define MAYBE(Struct, Kind, name, doc) \
  if (s.name) m.set_##name(*s.name);
#define LIST(Struct, Kind, name, most, doc) \
  for (const auto& item : s.name) m.add_##name(item);
#define CHOICE(Struct, Enum, name, doc) m.set_##name(nameOf(s.name));
#define PART(Struct, Other, name, doc) put(s.name, *m.mutable_##name());
#define MAYBE_PART(Struct, Other, name, doc) \
  if (s.name) put(*s.name, *m.mutable_##name());
#define PARTS(Struct, Other, name, most, doc) \
  for (const Other& item : s.name) put(item, *m.add_##name());
#define END_STRUCT(Name) }
#include "model/travel.def"

// take: the fields of a message into a struct.
#define STRUCT(Name, Message, doc) \
  template <typename M>            \
  void take(const M& m, Name& s) {
#define STRUCT_OF(Name, Message, Base, doc) \
  STRUCT(Name, Message, doc)                \
  take(m, static_cast<Base&>(s));
#define FIELD(Struct, Kind, name, doc)                       \
  if constexpr (kIsIndex<kind::Kind>)                        \
    s.name = m.has_##name() ? m.name() : kind::Kind::none(); \
  else                                                       \
    s.name = bounded(m.name());
#define MAYBE(Struct, Kind, name, doc) \
  if (m.has_##name()) s.name = m.name();
#define LIST(Struct, Kind, name, most, doc) \
  for (int i = 0; i < std::min(most, m.name##_size()); ++i) s.name.push_back(bounded(m.name(i)));
#define CHOICE(Struct, Enum, name, doc) fromName(m.name(), s.name);
#define PART(Struct, Other, name, doc) take(m.name(), s.name);
#define MAYBE_PART(Struct, Other, name, doc) \
  if (m.has_##name()) take(m.name(), s.name.emplace());
#define PARTS(Struct, Other, name, most, doc) \
  for (int i = 0; i < std::min(most, m.name##_size()); ++i) take(m.name(i), s.name.emplace_back());
#define END_STRUCT(Name) }
#include "model/travel.def"

}  // namespace

#define STRUCT(Name, Message, doc)                                                        \
  void toMessage(const model::Name& value, pb::Message& message) { put(value, message); } \
  model::Name fromMessage(const pb::Message& message) {                                   \
    model::Name value;                                                                    \
    take(message, value);                                                                 \
    return value;                                                                         \
  }
#define STRUCT_OF(Name, Message, Base, doc) STRUCT(Name, Message, doc)
#define KEPT(Name, doc)
#define KEPT_OF(Name, Base, doc)
#include "model/travel.def"

void toMessage(const LiveEvent& live, pb::TraceEvent& m) {
  const tracesmith::TraceEvent& e = live.event;
  m.set_timestamp(e.timestamp);
  m.set_type(static_cast<uint32_t>(e.type));
  m.set_name(e.name);
  m.set_device_id(e.device_id);
  m.set_stream_id(e.stream_id);
  m.set_correlation_id(e.correlation_id);
  m.set_duration(e.duration);
  m.set_node_id(live.node);
  if (live.rank) m.set_rank(*live.rank);
  m.set_thread_id(e.thread_id);
  if (e.memory_params) m.set_bytes(e.memory_params->size_bytes);
  for (const auto& [key, value] : e.metadata) (*m.mutable_metadata())[key] = value;
  m.set_lost(live.lost);
}

LiveEvent fromMessage(const pb::TraceEvent& m) {
  LiveEvent live;
  tracesmith::TraceEvent& e = live.event;
  live.node = m.node_id();
  if (m.has_rank()) live.rank = m.rank();
  live.lost = m.lost();
  e.timestamp = m.timestamp();
  e.type = static_cast<EventType>(m.type());
  e.name = m.name();
  e.device_id = m.device_id();
  e.stream_id = m.stream_id();
  e.correlation_id = m.correlation_id();
  e.duration = m.duration();
  e.thread_id = m.thread_id();
  if (m.has_bytes()) e.memory_params = MemoryParams{m.bytes(), {}, {}};
  e.metadata.insert(m.metadata().begin(), m.metadata().end());
  return live;
}

}  // namespace tracesmith::cluster
