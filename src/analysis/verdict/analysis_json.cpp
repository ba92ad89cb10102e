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
#define PARTS(Struct, Other, name, doc) writeList(w, #name, s.name);
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

void writeTexts(JsonWriter& w, const char* key, const std::vector<std::string>& list) {
  write<kind::Notes>(w.key(key), list);
}

void writeHta(JsonWriter& w, const Hta& h) {
  w.key("hta").beginObject();
  writeList(w, "temporal", h.temporal);
  writeList(w, "overlap", h.overlap);
  w.key("kernel_types").beginObject();
  for (const auto& [label, us] : h.kernel_types) w.field(label, us);
  w.endObject();
  writeList(w, "kernels", h.kernels);
  writeList(w, "idle", h.idle);
  writeList(w, "queue", h.queue);
  writeList(w, "launch", h.launch);
  writeList(w, "stragglers", h.stragglers);
  w.endObject();
}

}  // namespace

std::string toJson(const Analysis& a, const std::string& file) {
  using namespace kind;
  std::string out;
  JsonWriter w(out);
  w.beginObject();
  w.field("file", file).field("simulated", a.simulated).field("events", a.events);
  w.field("ranks", a.ranks).field("nodes", a.nodes);
  write<Id>(w.key("world_size"), a.world_size ? *a.world_size : kNull);
  write<Real>(w.key("duration_us"), a.duration_us);
  write<Real>(w.key("job_us"), a.job_us);
  write<Real>(w.key("startup_us"), a.startup_us);
  write<Real>(w.key("step_us"), a.step_us);
  w.field("steps_by", a.steps_by);
  writeObject(w.key("verdict"), a.verdict);
  writeTexts(w, "unknowns", a.unknowns);
  writeTexts(w, "notes", a.notes);
  writeHta(w, a.hta);
  writeList(w, "steps", a.steps);
  writeList(w, "breakdown", a.breakdown);
  writeList(w, "kernels", a.kernels);
  writeList(w, "collectives", a.collectives);
  writeList(w, "blame", a.blame);
  writeList(w, "links", a.links);
  w.key("matrix").beginObject();
  write<Note>(w.key("pattern"), a.pattern);
  write<Note>(w.key("note"), a.matrix_note);
  writeList(w, "cells", a.matrix);
  w.endObject();
  w.key("critical_path");
  a.critical_path ? writeObject(w, *a.critical_path) : void(w.null());
  writeList(w, "clock", a.clocks);
  writeList(w, "losses", a.losses);
  w.key("not_counted").beginObject();
  w.field("incomplete", a.incomplete).field("inconsistent", a.inconsistent).field("unmatched", a.unmatched);
  w.endObject().endObject();
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
