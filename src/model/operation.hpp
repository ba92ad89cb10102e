// What an operation of several ranks is: its kind by any source's name, who waits for whom in it, its bandwidth.
// Declared in operation.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tracesmith::model {

enum class OpKind : uint8_t {
#define OPERATION(name, nccl, spellings, waiting, traffic, bus) name,
#include "model/operation.def"
  other
};

/// Who cannot leave an operation before whom has come.
enum class Waiting : uint8_t {
  all,       ///< every rank waits for every other: all leave together, after the last has come
  for_root,  ///< the others wait for the root, which waits for nobody (broadcast, scatter)
  by_root,   ///< the root waits for all others, which leave when their data is sent (reduce, gather)
  pair,      ///< a send and its receive wait for each other
  unknown
};

/// The kind with exactly this name ("all_reduce"); other: none has it.
OpKind opKind(std::string_view name);
/// The kind that any source means: "AllReduce", "_allgather_base", "nccl:all_reduce"; other: none is recognised.
OpKind opKindOf(std::string_view spelling);
const char* opName(OpKind op);
/// One name however its source spells it: that of its kind, or else the source's own in lower case with underscores.
std::string opNameOf(std::string_view spelling);
/// NCCL's name of the function; "Unknown" of other.
const char* ncclFunction(OpKind op);

Waiting waitingIn(OpKind op);
/// No rank can leave before the last has come, so that one rank's end tells that all have come.
inline bool endsTogether(OpKind op) { return waitingIn(op) == Waiting::all; }
inline bool isPair(OpKind op) { return waitingIn(op) == Waiting::pair; }
inline bool isRooted(OpKind op) { return waitingIn(op) == Waiting::for_root || waitingIn(op) == Waiting::by_root; }

/// `collectives.bytes` of an operation whose argument in NCCL is this many bytes.
int64_t messageBytes(OpKind op, int64_t argument_bytes, int64_t ranks);

/// What counts as transferred, by nccl-tests' rules.
struct Traffic {
  double algorithm;  ///< bytes of the whole operation
  double bus;        ///< bytes one link carried
};
/// `bytes`: of one rank, as in `collectives`. Values below zero (kNull) are not known. Nothing: the operation has no
/// bandwidth, or what it takes to tell is not known.
std::optional<Traffic> trafficOf(OpKind op, int64_t bytes, int64_t ranks);

/// GB/s (10⁹ bytes), of Traffic over time.
struct Bandwidth {
  double algorithm_gbps, bus_gbps;
};
std::optional<Bandwidth> bandwidthOf(OpKind op, int64_t bytes, int64_t ranks, int64_t ns);

/// The same as SQL: CREATE MACRO algbw_gbps(op, bytes, ranks, dur) and busbw_gbps(op, bytes, ranks, dur).
std::vector<std::string> bandwidthMacros();

/// What the name of one of NCCL's kernels says: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)", also as the linker spells
/// it. Empty: it does not say.
struct KernelWords {
  std::string_view words;  ///< behind the prefix: "AllReduce_Sum_f32_RING_LL"; empty: not one of NCCL's kernels
  std::string_view function, algo, proto;
};
KernelWords kernelWords(std::string_view kernel);

}  // namespace tracesmith::model
