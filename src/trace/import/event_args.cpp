#include "trace/import/event_args.hpp"

#include <xxhash.h>

#include "base/text.hpp"

namespace tracesmith::trace {
namespace {

bool setInt(std::string_view value, int64_t& slot) {
  int64_t v;
  if (slot != kNull || !parseToken(value, v)) return false;
  slot = v;
  return true;
}

bool setInt32(std::string_view value, int64_t& slot) {
  int64_t v;
  if (slot != kNull || !parseToken(value, v) || v != static_cast<int32_t>(v)) return false;
  slot = v;
  return true;
}

bool setShape(std::string_view value, std::optional<int32_t>& field) {
  int64_t v;
  if (field || !parseToken(value, v) || v < 0 || v > INT32_MAX) return false;
  field = static_cast<int32_t>(v);
  return true;
}

/// "[8, 1, 1]"
bool setShape3(std::string_view value, std::optional<int32_t>& x, std::optional<int32_t>& y,
               std::optional<int32_t>& z) {
  if (x || value.size() < 2 || value.front() != '[') return false;
  int32_t out[3];
  const char *p = value.data() + 1, *end = value.data() + value.size() - 1;
  for (int i = 0; i < 3; ++i) {
    while (p < end && (*p == ' ' || *p == ',' || *p == '\n' || *p == '\r' || *p == '\t')) ++p;
    const char* digits = p;
    int64_t v = 0;
    for (; p < end && *p >= '0' && *p <= '9' && v <= INT32_MAX; ++p) v = v * 10 + (*p - '0');
    if (p == digits || v > INT32_MAX) return false;
    out[i] = static_cast<int32_t>(v);
  }
  while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) ++p;
  if (p != end) return false;
  x = out[0];
  y = out[1];
  z = out[2];
  return true;
}

/// True if the member went into a column.
bool takeArg(const JsonMember& m, bool on_device, EventRow& row, LaunchShape& shape) {
  const std::string_view key = m.key;
  switch (key.size()) {
    case 4:
      return is(key, "grid") && setShape3(m.value, shape.grid_x, shape.grid_y, shape.grid_z);
    case 5:
      if (is(key, "bytes")) return setInt(m.value, row.bytes);
      return is(key, "block") && setShape3(m.value, shape.block_x, shape.block_y, shape.block_z);
    case 6:
      if (!on_device) return false;
      if (is(key, "device")) return setInt32(m.value, row.device);
      return is(key, "stream") && setInt(m.value, row.stream);
    case 7:
      return is(key, "context") && setInt32(m.value, row.context);
    case 8:
      return is(key, "graph id") && setInt(m.value, row.graph);
    case 11:
      if (is(key, "correlation")) return setInt(m.value, row.correlation);
      return (is(key, "External id") || is(key, "external id")) && setInt(m.value, row.external_id);
    case 13:
      if (is(key, "graph node id")) return setInt(m.value, row.graph_node);
      return is(key, "shared memory") && setShape(m.value, shape.shared_static);
    case 20:
      if (is(key, "registers per thread")) return setShape(m.value, shape.registers);
      return is(key, "static shared memory") && setShape(m.value, shape.shared_static);
    case 21:
      return is(key, "dynamic shared memory") && setShape(m.value, shape.shared_dynamic);
    default:
      return false;
  }
}

}  // namespace

void ArgsText::flush() {
  if (!from_) return;
  comma();
  appendCompact(out_, std::string_view(from_, static_cast<size_t>(to_ - from_)));
  from_ = nullptr;
}

void ArgsText::member(const JsonMember& m) {
  // Neighbours in the source have only a comma and white space between them.
  if (from_ && m.begin > to_) {
    JsonCursor between{to_, m.begin};
    between.space();
    if (*between.p == ',') ++between.p;
    between.space();
    if (between.p == m.begin) {
      to_ = m.end();
      return;
    }
  }
  flush();
  from_ = m.begin;
  to_ = m.end();
}

void ArgsText::field(std::string_view key, std::string_view json) {
  flush();
  comma();
  appendJsonString(out_, key);
  out_ += ':';
  out_ += json;
}

void ArgsText::members(std::string_view text) {
  if (text.empty()) return;
  flush();
  comma();
  out_ += text;
}

bool ArgsText::finish() {
  flush();
  if (out_.size() == begin_) return false;
  out_ += '}';
  return true;
}

std::string ArgsText::takeMembers() {
  flush();
  std::string text = out_.size() == begin_ ? std::string() : out_.substr(begin_ + 1);
  out_.resize(begin_);
  return text;
}

size_t LaunchIds::Hash::operator()(const Numbers& numbers) const { return XXH3_64bits(&numbers, sizeof numbers); }

int64_t LaunchIds::of(const LaunchShape& s) {
  constexpr int32_t kNone = -1;
  constexpr Numbers kNothing = {kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
  auto number = [](std::optional<int32_t> v) { return v ? *v : kNone; };
  const Numbers numbers = {number(s.grid_x),    number(s.grid_y),        number(s.grid_z),
                           number(s.block_x),   number(s.block_y),       number(s.block_z),
                           number(s.registers), number(s.shared_static), number(s.shared_dynamic)};
  if (numbers == kNothing) return kNull;
  if (auto it = ids_.find(numbers); it != ids_.end()) return it->second;
  if (ids_.size() >= 1u << 16) ids_.clear();
  const int64_t id = writer_.launch(s);
  ids_.emplace(numbers, id);
  return id;
}

void takeArgs(const ChromeEvent& event, bool on_device, EventRow& row, LaunchShape& shape, ArgsText& rest) {
  if (event.arg_members.empty()) {
    if (!event.args.empty() && event.args.front() != '{') rest.field("args", event.args);
    return;
  }
  for (const JsonMember& m : event.arg_members)
    if (!takeArg(m, on_device, row, shape)) rest.member(m);
}

}  // namespace tracesmith::trace
