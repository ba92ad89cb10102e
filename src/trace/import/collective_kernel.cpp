#include "trace/import/collective_kernel.hpp"

#include <algorithm>

namespace tracesmith::trace {
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

/// "ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)" → "AllReduce_Sum_f32_RING_LL"; empty for any other kernel.
std::string_view kernelWords(std::string_view name) {
  size_t at = name.find("nccl");
  if (at == std::string_view::npos || at > 64) return {};
  name.remove_prefix(at);
  for (std::string_view prefix : {"ncclDevKernel_", "ncclKernel_", "ncclSymkDevKernel_", "ncclSymDevKernel_"}) {
    if (!name.starts_with(prefix)) continue;
    std::string_view words = name.substr(prefix.size());
    return words.substr(0, words.find_first_of("(<"));
  }
  return {};
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

void fromName(std::string_view words, std::string& op, std::string& algo, std::string& proto) {
  std::string_view all = words;
  for (bool first = true; !words.empty(); first = false) {
    size_t end = std::min(words.find('_'), words.size());
    std::string_view word = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    if (first) op = normalCollective(word);
    if (word == "LL" || word == "LL128") proto = word;
    if (word == "SIMPLE" || word == "Simple") proto = "Simple";
    if (word == "RING") algo = "ring";
    if (word == "TREE") algo = "tree";
    if (word == "PAT") algo = "pat";
    if (word == "NVLS") algo = "nvls";
    if (word == "COLLNET") algo = "collnet";
  }
  if (all.find("NVLS_TREE") != std::string_view::npos) algo = "nvls_tree";
  if (all.find("COLLNET_DIRECT") != std::string_view::npos) algo = "collnet_direct";
  if (all.find("COLLNET_CHAIN") != std::string_view::npos) algo = "collnet_chain";
  if (op == "generic") op.clear();  // RCCL's kernel for everything
}

}  // namespace

std::string normalCollective(std::string_view name) {
  std::string letters;
  for (char c : name)
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) letters += static_cast<char>(c | 32);
  if (letters.starts_with("nccl") || letters.starts_with("rccl")) letters.erase(0, 4);
  // Longer words first: "allreduce" holds "reduce".
  static constexpr std::string_view kWords[][2] = {{"reducescatter", "reduce_scatter"},
                                                   {"allgather", "all_gather"},
                                                   {"allreduce", "all_reduce"},
                                                   {"alltoall", "all_to_all"},
                                                   {"broadcast", "broadcast"},
                                                   {"bcast", "broadcast"},
                                                   {"sendrecv", "send_recv"},
                                                   {"send", "send"},
                                                   {"recv", "recv"},
                                                   {"receive", "recv"},
                                                   {"barrier", "barrier"},
                                                   {"reduce", "reduce"},
                                                   {"scatter", "scatter"},
                                                   {"gather", "gather"}};
  for (auto& [word, op] : kWords)
    if (letters.find(word) != std::string::npos) return std::string(op);
  return letters;
}

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

bool isCollectiveKernel(const ChromeEvent& event, std::string_view name) {
  return !kernelWords(name).empty() || event.findArg("Collective name") != nullptr;
}

CollectiveRow collectiveRow(const ChromeEvent& event, std::string_view name, const EventRow& kernel,
                            const LaunchShape& shape, int64_t rank, Writer& writer) {
  CollectiveRow row;
  row.ts = kernel.ts;
  row.dur = kernel.dur;
  row.name = kernel.name;
  row.device = kernel.device;
  row.stream = kernel.stream;
  row.correlation = kernel.correlation;

  std::string op, algo, proto;
  std::string_view words = kernelWords(name);
  fromName(words, op, algo, proto);
  if (!words.empty() && shape.grid_x > 0) row.channels = shape.grid_x;  // NCCL runs one block a channel
  if (std::string told = textArg(event, "Collective name"); !told.empty()) op = normalCollective(told);
  auto string = [&](const std::string& s) { return s.empty() ? kNull : writer.string(s); };
  row.op = string(op);
  row.algo = string(algo);
  row.proto = string(proto);
  row.comm = string(textArg(event, "Process Group Name"));
  row.seq = intArg(event, "Seq");
  row.group_size = int32Arg(event, "Group size");
  std::string ranks = textArg(event, "Process Group Ranks");
  row.group_rank = placeOf(rank, ranks);
  if (op == "send") {
    row.peer = int32Arg(event, "Dst Rank");
  } else if (op == "recv") {
    row.peer = int32Arg(event, "Src Rank");
  } else if (op == "broadcast" || op == "reduce" || op == "scatter" || op == "gather") {
    row.peer = int32Arg(event, "Root Rank");
  }

  // The message of this rank alone: what a gather takes in, what a scatter gives out.
  int64_t in = intArg(event, "In msg nelems"), out = intArg(event, "Out msg nelems");
  bool by_output = op == "reduce_scatter" || op == "recv" || op == "scatter";
  row.elements = by_output ? out : in;
  if (row.elements == kNull && op != "all_gather" && op != "reduce_scatter") row.elements = by_output ? in : out;
  if (row.elements < 0) row.elements = kNull;
  std::string dtype = textArg(event, "dtype");
  row.dtype = string(dtype);
  int64_t bytes;
  if (int64_t size = elementBytes(dtype);
      size > 0 && row.elements != kNull && !__builtin_mul_overflow(row.elements, size, &bytes))
    row.bytes = bytes;
  return row;
}

}  // namespace tracesmith::trace
