#include "analysis/live/json.hpp"

#include "base/text.hpp"

namespace tracesmith::analysis::live {
namespace {

void ranks(JsonWriter& w, const char* key, const std::vector<int32_t>& all) {
  w.key(key).beginArray();
  for (int32_t r : all) r >= 0 ? w.value(r) : w.null();
  w.endArray();
}

}  // namespace

std::string alertJson(const Alert& a) {
  std::string text;
  JsonWriter(text)
      .beginObject()
      .field("t", std::to_string(a.t_ns))
      .field("kind", nameOf(a.kind))
      .field("severity", nameOf(a.severity()))
      .field("text", a.text)
      .endObject();
  return text;
}

std::string hangJson(const HangVerdict& v, const std::vector<Alert>& alerts) {
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("state", stateName(v.state)).key("since");
  v.since_ns ? w.value(std::to_string(v.since_ns)) : w.null();
  w.field("verdict", v.text).field("confidence", v.confidence).key("communicators").beginArray();
  for (const StuckOp& s : v.communicators) {
    w.beginObject().field("comm", s.comm).field("op", s.op).field("seq", s.seq).field("ranks", s.ranks);
    ranks(w, "entered", s.entered);
    ranks(w, "missing", s.missing);
    w.field("bytes", s.bytes).field("age_s", s.age_s).key("mismatch");
    s.mismatch.empty() ? w.null() : w.value(s.mismatch);
    w.endObject();
  }
  w.endArray().key("culprits").beginArray();
  for (const Culprit& c : v.culprits) {
    w.beginObject().key("rank");
    c.rank >= 0 ? w.value(c.rank) : w.null();
    w.key("node");
    c.node.empty() ? w.null() : w.value(c.node);
    w.field("reason", c.reason).field("confidence", c.confidence).endObject();
  }
  w.endArray().key("alerts").beginArray();
  for (const Alert& a : alerts) w.raw(alertJson(a));
  w.endArray().endObject();
  return text;
}

}  // namespace tracesmith::analysis::live
