// Events that do not become rows of `events`: counters, arrows, names of processes and threads.
#include "base/text.hpp"
#include "trace/category.hpp"
#include "trace/import/chrome_import.hpp"

namespace tracesmith::trace {

void ChromeImport::counter(const ChromeEvent& e) {
  CounterRow row;
  if (!time(e, row.ts)) return;
  std::string counter(name(e));
  if (!e.id.empty()) counter += "[" + std::string(e.id) + "]";
  row.pid = tracks_.process(e.pid);
  tracks_.own(row);
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
  const Tracks::Owner* who = tracks_.ownerOf(row.pid);
  tracks_.own(row);
  if (who && who->device != kNull) row.pid = who->device;
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

/// What `tracesmith export` says of a number in a file of several ranks, before its first event.
void ChromeImport::owner(const ChromeEvent& e, int64_t number) {
  Tracks::Owner who;
  auto numberOf = [&](const char* key) {
    int64_t value;
    const JsonMember* m = e.findArg(key);
    return m && parseToken(m->value, value) ? value : kNull;
  };
  auto textOf = [&](const char* key) {
    std::string text;
    const JsonMember* m = e.findArg(key);
    if (m && m->value.size() >= 2 && m->value.front() == '"')
      appendUnescaped(text, m->value.substr(1, m->value.size() - 2));
    return text;
  };
  auto int32 = [&](const char* key) {
    const int64_t value = numberOf(key);
    return value == static_cast<int32_t>(value) ? value : kNull;
  };
  who.rank = int32("rank");
  who.device = int32("device");
  who.pid = numberOf("pid");
  who.node_name = textOf("node");
  who.name = textOf("name");
  if (!who.node_name.empty()) who.node = writer_.string(who.node_name);
  tracks_.owner(number, std::move(who));
}

void ChromeImport::metadata(const ChromeEvent& e) {
  int64_t pid = tracks_.process(e.pid);
  if (e.name == kChromeOwner && pid != kNull && !e.args.empty()) return owner(e, pid);
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
