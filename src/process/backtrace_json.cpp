#include "base/text.hpp"
#include "process/backtrace.hpp"

namespace tracesmith::process {
namespace {

template <typename T>
void orNull(JsonWriter& json, const char* key, const std::optional<T>& value) {
  json.key(key);
  value ? json.value(*value) : json.null();
}

void write(JsonWriter& json, const Frame& f) {
  json.beginObject().field("kind", f.python ? "python" : "native").key("function");
  f.function.empty() ? json.null() : json.value(f.function);
  json.key("file");
  f.file.empty() ? json.null() : json.value(f.file);
  orNull(json, "line", f.line);
  orNull(json, "address", f.address);
  json.field("times", f.times).endObject();
}

void write(JsonWriter& json, const ThreadStack& t) {
  json.beginObject();
  orNull(json, "tid", t.tid);
  json.key("name");
  t.tid ? json.value(t.name) : json.null();
  json.key("state");
  t.state ? json.value(std::string(1, t.state)) : json.null();
  json.field("python", t.python);
  orNull(json, "holds_gil", t.holds_gil);
  json.field("changed", t.changed).field("truncated", t.truncated).field("damaged", t.damaged);
  orNull(json, "stopped_ns", t.stopped_ns);
  json.key("frames").beginArray();
  for (const Frame& f : t.frames) write(json, f);
  json.endArray().endObject();
}

}  // namespace

std::string stacksJson(const Stacks& s) {
  std::string out;
  JsonWriter json(out);
  json.beginObject().field("pid", static_cast<int64_t>(s.pid)).field("command", s.command).field("user", s.user);
  orNull(json, "rank", s.rank);
  json.key("job");
  s.job.empty() ? json.null() : json.value(s.job);
  json.key("python_version");
  s.python ? json.value(text(*s.python)) : json.null();
  json.key("threads").beginArray();
  for (const ThreadStack& t : s.threads) write(json, t);
  json.endArray().key("notes").beginArray();
  for (const std::string& n : s.notes) json.value(n);
  json.endArray().endObject();
  return out;
}

}  // namespace tracesmith::process
