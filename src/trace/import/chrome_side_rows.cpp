// Events that do not become rows of `events`: counters, arrows, names of processes and threads.
#include "base/text.hpp"
#include "trace/import/chrome_import.hpp"

namespace tracesmith::trace {

void ChromeImport::counter(const ChromeEvent& e) {
  CounterRow row;
  if (!time(e, row.ts)) return;
  std::string counter(name(e));
  if (!e.id.empty()) counter += "[" + std::string(e.id) + "]";
  row.pid = tracks_.process(e.pid);
  row.name = writer_.string(counter);
  if (e.arg_members.empty()) return reject("counter without value", e);
  for (const JsonMember& m : e.arg_members) {
    double value;
    if (!parseToken(m.value, value)) {
      reject("counter without value", e);
      continue;
    }
    std::string series;
    appendUnescaped(series, m.key);
    row.series = writer_.string(series);
    row.value = real(value);
    sink_.add(row);
  }
}

void ChromeImport::flow(const ChromeEvent& e, const char* phase) {
  FlowRow row;
  if (!time(e, row.ts)) return;
  row.pid = tracks_.process(e.pid);
  row.tid = tracks_.thread(row.pid, e.tid);
  row.phase = writer_.string(phase);
  std::string kind;
  appendUnescaped(kind, e.cat.empty() ? e.name : e.cat);
  row.kind = writer_.string(kind);
  size_t begin = sink_.texts().size();
  ArgsText text(sink_.texts());
  // An id that is no number keeps its text.
  int64_t id;
  if (parseToken(e.id, id))
    row.id = id;
  else if (!e.id.empty())
    text.field("id", e.id);
  if (!e.cat.empty() && !e.name.empty() && e.name != e.cat) {
    std::string json;
    appendJsonString(json, name(e));
    text.field("name", json);
  }
  for (const JsonMember& m : e.others) text.member(m);
  for (const JsonMember& m : e.arg_members) text.member(m);
  if (text.finish()) row.args = finishedArgs(e, begin);
  sink_.add(row);
}

void ChromeImport::metadata(const ChromeEvent& e) {
  int64_t pid = tracks_.process(e.pid);
  auto value = [&](std::string_view key) {
    const JsonMember* m = e.findArg(key);
    return m ? m->value : std::string_view();
  };
  if (e.name == "process_name" && pid != kNull && !value("name").empty())
    return tracks_.processName(pid, value("name"));
  if (e.name == "process_labels" && pid != kNull && !value("labels").empty())
    return tracks_.processLabels(pid, value("labels"));
  if (e.name == "process_sort_index" && pid != kNull && !value("sort_index").empty())
    return tracks_.processSortIndex(pid, value("sort_index"));
  int64_t tid = tracks_.thread(pid, e.tid);
  if (e.name == "thread_name" && tid != kNull && !value("name").empty())
    return tracks_.threadName(pid, tid, value("name"));
  MetadataRow row;
  row.key = writer_.string(name(e));
  std::string text;
  JsonWriter json(text);
  json.beginObject();
  if (pid != kNull) json.field("pid", pid);
  if (tid != kNull) json.field("tid", tid);
  std::string compact;
  appendCompact(compact, e.args.empty() ? "null" : e.args);
  json.key("args").raw(compact).endObject();
  row.value = sink_.text(withoutNonFinite(text));
  sink_.add(row);
}

}  // namespace tracesmith::trace
