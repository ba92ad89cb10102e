#include "trace/import/chrome_event.hpp"

namespace tracesmith::trace {
namespace {

const JsonMember* find(const std::vector<JsonMember>& members, std::string_view key) {
  for (const JsonMember& m : members)
    if (m.key == key) return &m;
  return nullptr;
}

/// The next key of an object, or its end. `first` is true before the first one.
bool nextKey(JsonCursor& c, bool first, bool& done, JsonMember& member) {
  done = false;
  c.space();
  if (*c.p == '}') {
    ++c.p;
    done = true;
    return true;
  }
  if (!first) {
    if (*c.p != ',') return c.fail("expected ',' or '}'");
    ++c.p;
    c.space();
  }
  if (*c.p != '"') return c.fail("expected a key");
  member.begin = c.p;
  bool escaped;
  return c.string(member.key, escaped) && c.colon();
}

bool keepValue(JsonCursor& c, std::string_view& value) {
  const char* begin = c.p;
  if (!c.value()) return false;
  value = std::string_view(begin, static_cast<size_t>(c.p - begin));
  return true;
}

bool keepString(JsonCursor& c, std::string_view& content, bool& escaped) {
  escaped = false;
  return *c.p == '"' ? c.string(content, escaped) : keepValue(c, content);
}

}  // namespace

void ChromeEvent::clear() {
  ph = name = cat = ts = dur = pid = tid = id = args = text = {};
  name_escaped = not_finite = false;
  arg_members.clear();
  others.clear();
}

const JsonMember* ChromeEvent::findArg(std::string_view key) const { return find(arg_members, key); }
const JsonMember* ChromeEvent::findOther(std::string_view key) const { return find(others, key); }

bool readMembers(JsonCursor& c, std::vector<JsonMember>& members) {
  ++c.p;
  members.clear();
  for (bool first = true;; first = false) {
    bool done;
    JsonMember m{};
    if (!nextKey(c, first, done, m)) return false;
    if (done) return true;
    if (!keepValue(c, m.value)) return false;
    members.push_back(m);
  }
}

bool readEvent(JsonCursor& c, ChromeEvent& e) {
  e.clear();
  const char* begin = c.p++;
  for (bool first = true;; first = false) {
    bool done, escaped;
    JsonMember m{};
    if (!nextKey(c, first, done, m)) return false;
    if (done) break;
    const std::string_view key = m.key;
    bool good;
    if (is(key, "ph")) {
      good = keepString(c, e.ph, escaped);
    } else if (is(key, "name")) {
      good = keepString(c, e.name, e.name_escaped);
    } else if (is(key, "cat") && *c.p == '"') {
      good = c.string(e.cat, escaped);
    } else if (is(key, "ts")) {
      good = keepValue(c, e.ts);
    } else if (is(key, "dur")) {
      good = keepValue(c, e.dur);
    } else if (is(key, "pid")) {
      good = keepValue(c, e.pid);
    } else if (is(key, "tid")) {
      good = keepValue(c, e.tid);
    } else if (is(key, "id")) {
      good = keepValue(c, e.id);
    } else if (is(key, "args")) {
      const char* value = c.p;
      e.arg_members.clear();
      good = *c.p == '{' ? readMembers(c, e.arg_members) : c.value();
      e.args = std::string_view(value, static_cast<size_t>(c.p - value));
    } else {
      good = keepValue(c, m.value);
      e.others.push_back(m);
    }
    if (!good) return false;
  }
  e.text = std::string_view(begin, static_cast<size_t>(c.p - begin));
  e.not_finite = c.not_finite;
  return true;
}

}  // namespace tracesmith::trace
