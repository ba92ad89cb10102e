#include "model/operation.hpp"

#include <iterator>
#include <limits>

namespace tracesmith::model {
namespace {

struct Declared {
  const char *name, *nccl, *spellings;
  Waiting waiting;
  const char *traffic, *bus;  // as SQL
};

constexpr Declared kOperations[] = {
#define OPERATION(name, nccl, spellings, waiting, traffic, bus) \
  {#name, nccl, spellings, Waiting::waiting, #traffic, #bus},
#include "model/operation.def"
    {"other", "Unknown", "", Waiting::unknown, "NULL", "NULL"}};
static_assert(std::size(kOperations) == static_cast<size_t>(OpKind::other) + 1);

const Declared& declared(OpKind op) { return kOperations[static_cast<size_t>(op)]; }

std::string lettersOf(std::string_view name) {
  std::string letters;
  for (char c : name)
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) letters += static_cast<char>(c | 32);
  return letters;
}

bool hasOneOf(const std::string& letters, std::string_view spellings) {
  while (!spellings.empty()) {
    const size_t end = std::min(spellings.find(' '), spellings.size());
    if (letters.find(spellings.substr(0, end)) != std::string::npos) return true;
    spellings.remove_prefix(std::min(end + 1, spellings.size()));
  }
  return false;
}

/// "PutSignal" → "put_signal".
std::string withUnderscores(std::string_view name) {
  std::string out;
  bool small = false;
  for (char c : name) {
    const bool capital = c >= 'A' && c <= 'Z';
    const bool letter = capital || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if ((capital && small) || (!letter && !out.empty() && out.back() != '_')) out += '_';
    if (letter) out += static_cast<char>(capital ? c | 32 : c);
    small = letter && !capital;
  }
  while (out.ends_with('_')) out.pop_back();
  return out;
}

}  // namespace

OpKind opKind(std::string_view name) {
  for (size_t i = 0; i + 1 < std::size(kOperations); ++i)
    if (name == kOperations[i].name) return static_cast<OpKind>(i);
  return OpKind::other;
}

OpKind opKindOf(std::string_view spelling) {
  const std::string letters = lettersOf(spelling);
  for (size_t i = 0; i + 1 < std::size(kOperations); ++i)
    if (hasOneOf(letters, kOperations[i].spellings)) return static_cast<OpKind>(i);
  return OpKind::other;
}

const char* opName(OpKind op) { return declared(op).name; }

std::string opNameOf(std::string_view spelling) {
  const OpKind op = opKindOf(spelling);
  return op == OpKind::other ? withUnderscores(spelling) : opName(op);
}

const char* ncclFunction(OpKind op) { return declared(op).nccl; }

Waiting waitingIn(OpKind op) { return declared(op).waiting; }

int64_t messageBytes(OpKind op, int64_t argument_bytes, int64_t ranks) {
  return op == OpKind::all_to_all && ranks > 0 ? argument_bytes * ranks : argument_bytes;
}

std::optional<Traffic> trafficOf(OpKind op, int64_t message, int64_t group) {
  if (message < 0) return {};
  const auto bytes = static_cast<double>(message);
  const double ranks = group < 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(group);
  double all = 0, factor = 0;
  switch (op) {
#define OPERATION(name, nccl, spellings, waiting, traffic, bus) \
  case OpKind::name:                                            \
    all = traffic;                                              \
    factor = bus;                                               \
    break;
#include "model/operation.def"
    case OpKind::other:
      break;
  }
  if (!(factor > 0)) return {};  // nothing goes over a link, or the number of ranks is not known
  return Traffic{all, all * factor};
}

std::optional<Bandwidth> bandwidthOf(OpKind op, int64_t bytes, int64_t ranks, int64_t ns) {
  const std::optional<Traffic> traffic = ns > 0 ? trafficOf(op, bytes, ranks) : std::nullopt;
  if (!traffic) return {};
  const auto time = static_cast<double>(ns);
  return Bandwidth{traffic->algorithm / time, traffic->bus / time};
}

std::vector<std::string> bandwidthMacros() {
  std::string traffic = "CASE op", bus = "CASE op";
  for (const Declared& d : kOperations) {
    traffic += std::string(" WHEN '") + d.name + "' THEN " + d.traffic;
    bus += std::string(" WHEN '") + d.name + "' THEN " + d.bus;
  }
  traffic += " END";
  bus += " END";
  const std::string head =
      "_gbps(op, bytes, ranks, dur) AS CASE WHEN dur > 0 AND " + bus + " > 0 THEN (" + traffic + ")::DOUBLE / dur";
  return {"CREATE MACRO algbw" + head + " END", "CREATE MACRO busbw" + head + " * " + bus + " END"};
}

KernelWords kernelWords(std::string_view name) {
  constexpr size_t kPrefix = 64;  // of namespaces and mangling before it
  KernelWords out;
  const size_t at = name.find("nccl");
  if (at == name.npos || at > kPrefix) return out;
  name.remove_prefix(at);
  for (std::string_view prefix : {"ncclDevKernel_", "ncclKernel_", "ncclSymkDevKernel_", "ncclSymDevKernel_"}) {
    if (!name.starts_with(prefix)) continue;
    out.words = name.substr(prefix.size());
    out.words = out.words.substr(0, out.words.find_first_of("(<"));
  }
  out.function = out.words.substr(0, out.words.find('_'));
  if (out.function == "Generic") out.function = {};  // RCCL's kernel for everything
  for (std::string_view rest = out.words; !rest.empty();) {
    const size_t end = std::min(rest.find('_'), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (word == "LL" || word == "LL128") out.proto = word;
    if (word == "SIMPLE" || word == "Simple") out.proto = "Simple";
    if (word == "RING") out.algo = "ring";
    if (word == "TREE") out.algo = "tree";
    if (word == "PAT") out.algo = "pat";
    if (word == "NVLS") out.algo = "nvls";
    if (word == "COLLNET") out.algo = "collnet";
  }
  if (out.words.find("NVLS_TREE") != out.words.npos) out.algo = "nvls_tree";
  if (out.words.find("COLLNET_DIRECT") != out.words.npos) out.algo = "collnet_direct";
  if (out.words.find("COLLNET_CHAIN") != out.words.npos) out.algo = "collnet_chain";
  return out;
}

}  // namespace tracesmith::model
