// A choice of devices for machines and people.
#include "base/text.hpp"
#include "tracesmith/schedule/device_selector.hpp"

namespace tracesmith::schedule {
namespace {

template <typename T>
void optional(JsonWriter& w, const char* key, const std::optional<T>& value) {
  value ? w.key(key).value(*value) : w.key(key).null();
}

}  // namespace

const char* reasonText(Reason reason) {
  switch (reason) {
    case Reason::none:
      return "it is suitable";
    case Reason::excluded:
      return "it is excluded";
    case Reason::near_itself:
      return "it is the device to be near to";
    case Reason::problem:
      return "it does not respond";
    case Reason::vendor:
      return "it is of another vendor";
    case Reason::node:
      return "it is on another node";
    case Reason::no_precision:
      return "it does not support the precision";
    case Reason::precision_unknown:
      return "it is not known whether it supports the precision: run tracesmith bench hardware there";
    case Reason::no_telemetry:
      return "it has no telemetry";
    case Reason::stale:
      return "its telemetry is too old";
    case Reason::memory_unknown:
      return "its free memory is not known";
    case Reason::too_little_memory:
      return "it has too little free memory";
    case Reason::utilization_unknown:
      return "its utilisation is not known";
    case Reason::too_busy:
      return "it is too busy";
    case Reason::temperature_unknown:
      return "its temperature is not known";
    case Reason::too_hot:
      return "it is too hot";
    case Reason::no_score:
      return "it has no free memory and no idle time";
  }
  return "";
}

std::string selectionJson(const Selection& selection, const SelectionRequest& request) {
  std::string out;
  JsonWriter w(out);
  w.beginObject().field("requested", static_cast<uint64_t>(request.count)).field("suitable", selection.suitable);
  w.key("devices").beginArray();
  for (const Choice& c : selection.devices) {
    w.beginObject().field("device_id", c.device_id).field("score", c.score);
    optional(w, "memory_free_bytes", c.memory_free_bytes);
    optional(w, "utilization_percent", c.utilization_percent);
    optional(w, "temperature_celsius", c.temperature_celsius);
    optional(w, "near_gbps", c.near_gbps);
    optional(w, "age_s", c.age_s);
    w.field("simulated", c.simulated).endObject();
  }
  w.endArray().key("rejected").beginArray();
  for (const Rejection& r : selection.rejected)
    w.beginObject().field("device_id", r.device_id).field("reason", r.text()).endObject();
  w.endArray().endObject();
  return out;
}

}  // namespace tracesmith::schedule
