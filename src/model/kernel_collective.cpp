#include "model/kernel_collective.hpp"

#include <algorithm>
#include <unordered_map>

#include "model/operation.hpp"
#include "trace/import/chrome_event.hpp"

namespace tracesmith::model {

using namespace trace;

namespace {

std::string textArg(const ChromeEvent& event, std::string_view key) {
  std::string out;
  const JsonMember* m = event.findArg(key);
  if (!m) return out;
  if (m->value.size() >= 2 && m->value.front() == '"')
    appendUnescaped(out, m->value.substr(1, m->value.size() - 2));
  else if (m->value != "null")
    out = m->value;
  return out;
}

int64_t intArg(const ChromeEvent& event, std::string_view key) {
  const JsonMember* m = event.findArg(key);
  int64_t v;
  return m && parseToken(m->value, v) ? v : kNull;
}

int64_t int32Arg(const ChromeEvent& event, std::string_view key) {
  int64_t v = intArg(event, key);
  return v >= 0 && v <= INT32_MAX ? v : kNull;
}

/// This rank's place in "[0, 1, 8]", or kNull: also where the list is cut with "…".
int64_t placeOf(int64_t rank, std::string_view ranks) {
  if (rank == kNull || ranks.find("..") != std::string_view::npos) return kNull;
  int64_t place = 0;
  for (size_t i = 0; i < ranks.size(); ++place) {
    i = ranks.find_first_of("0123456789", i);
    if (i == std::string_view::npos) break;
    size_t end = std::min(ranks.find_first_not_of("0123456789", i), ranks.size());
    int64_t v;
    if (parseToken(ranks.substr(i, end - i), v) && v == rank) return place;
    i = end;
  }
  return kNull;
}

CollectiveRow rowOf(const ImportedEvent& k, const CommRule* rule, const std::string& told) {
  CollectiveRow row;
  row.ts = k.row.ts;
  row.dur = k.row.dur;
  row.name = k.row.name;
  row.device = k.row.device;
  row.stream = k.row.stream;
  row.correlation = k.row.correlation;

  const KernelWords words = kernelWords(k.name);
  std::string op = !told.empty()               ? opNameOf(told)
                   : !words.function.empty()   ? opNameOf(words.function)
                   : rule && !rule->op.empty() ? rule->op
                   : !k.on_device              ? opNameOf(k.name.substr(k.name.find(':') + 1))
                                               : std::string();
  auto string = [&](std::string_view s) { return s.empty() ? kNull : k.writer.string(s); };
  row.op = string(op);
  row.algo = string(words.algo);
  row.proto = string(words.proto);
  if (!words.words.empty() && k.shape.grid_x > 0) row.channels = *k.shape.grid_x;  // NCCL runs one block a channel
  row.comm = string(textArg(k.event, "Process Group Name"));
  row.group_size = int32Arg(k.event, "Group size");
  row.group_rank = placeOf(k.rank, textArg(k.event, "Process Group Ranks"));
  const OpKind kind = opKind(op);
  // Sends and receives of all peers share one count there, which differs from rank to rank.
  if (!isPair(kind) && kind != OpKind::send_recv) row.seq = k.seq;
  if (kind == OpKind::send) row.peer = int32Arg(k.event, "Dst Rank");
  if (kind == OpKind::recv) row.peer = int32Arg(k.event, "Src Rank");
  if (isRooted(kind)) row.peer = int32Arg(k.event, "Root Rank");

  // Kineto tells the elements of the input and of the output; which of them is the message is said in operation.def.
  const int64_t in = intArg(k.event, "In msg nelems"), out = intArg(k.event, "Out msg nelems");
  const bool by_output = kind == OpKind::reduce_scatter || kind == OpKind::recv || kind == OpKind::scatter;
  row.elements = by_output ? out : in;
  if (row.elements == kNull && kind != OpKind::all_gather && kind != OpKind::reduce_scatter)
    row.elements = by_output ? in : out;
  if (row.elements < 0) row.elements = kNull;
  const std::string dtype = textArg(k.event, "dtype");
  row.dtype = string(dtype);
  int64_t bytes;
  if (int64_t size = elementBytes(dtype);
      size > 0 && row.elements != kNull && !__builtin_mul_overflow(row.elements, size, &bytes))
    row.bytes = bytes;
  return row;
}

}  // namespace

int64_t elementBytes(std::string_view dtype) {
  std::string s;
  for (char c : dtype) s += static_cast<char>(c >= 'A' && c <= 'Z' ? c | 32 : c);
  if (s.starts_with("c10::")) s.erase(0, 5);
  struct Size {
    std::string_view name;
    int64_t bytes;
  };
  static constexpr Size kSizes[] = {
      {"float", 4},         {"float32", 4},      {"bfloat16", 2},      {"half", 2},   {"float16", 2}, {"double", 8},
      {"float64", 8},       {"long", 8},         {"long int", 8},      {"int64", 8},  {"int", 4},     {"int32", 4},
      {"short", 2},         {"int16", 2},        {"char", 1},          {"int8", 1},   {"byte", 1},    {"uint8", 1},
      {"unsigned char", 1}, {"signed char", 1},  {"bool", 1},          {"uint16", 2}, {"uint32", 4},  {"uint64", 8},
      {"complexhalf", 4},   {"complexfloat", 8}, {"complexdouble", 16}};
  for (const Size& size : kSizes)
    if (size.name == s) return size.bytes;
  return s.starts_with("float8") ? 1 : 0;
}

namespace {

/// `rule` is what some rules say about its name. What NCCL's calls on the host say is a row already: that of the
/// kernel.
std::optional<CollectiveRow> collectiveBy(const CommRule* rule, const ImportedEvent& e) {
  if (!rule && !e.on_device) return {};
  const std::string told = textArg(e.event, "Collective name");
  if (!rule && told.empty()) return {};
  return rowOf(e, rule, told);
}

const CommRules& builtIn() {
  static const CommRules rules;
  return rules;
}

}  // namespace

std::optional<CollectiveRow> collectiveOfEvent(const ImportedEvent& e) {
  return collectiveBy(e.on_device ? communicationOf(e.name) : builtIn().matchHost(e.name), e);
}

CollectiveOfEvent collectivesBy(std::shared_ptr<const CommRules> rules) {
  return [rules = std::move(rules),
          known = std::unordered_map<std::string, const CommRule*>()](const ImportedEvent& e) mutable {
    if (!e.on_device) return collectiveBy(rules->matchHost(e.name), e);
    auto [it, fresh] = known.try_emplace(std::string(e.name), nullptr);
    if (fresh) it->second = rules->match(e.name);
    return collectiveBy(it->second, e);
  };
}

}  // namespace tracesmith::model
