// The parts ranks took in collectives, and the collectives they make: matched across ranks.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/operation.hpp"
#include "trace/clocks.hpp"
#include "trace/name_numbers.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

using model::OpKind;

/// One rank's part in one operation.
struct Part {
  int64_t ts, end;  ///< raw clock when loaded, reference clock after toReference()
  int64_t seq = trace::kNull;
  int64_t bytes = trace::kNull;
  int64_t enqueue = trace::kNull;  ///< when the host called it
  int64_t correlation = trace::kNull;
  /// How long its rank's host was late in all, until it started and until computation could go on after it.
  int64_t late_before_ns = 0, late_ns = 0;
  int64_t own_before_ns = 0, own_ns = 0;  ///< the same, of computation that no other rank does
  /// So long computation stood still until it ended; negative: it had ended so long before what was launched after it
  /// began; kNull: not known. Set by the pass over the rank's events, as the next two are.
  int64_t held_ns = trace::kNull;
  int64_t slack_ns = 0;    ///< when it started, what was computed for it had been done for so long
  int64_t exposed_ns = 0;  ///< of it, with no computation under it
  int32_t process = 0;
  int32_t group_size = -1;  ///< −1: not known
  int32_t peer = -1;
  int32_t place = -1;  ///< of the process in the communicator, where the trace tells it
  int32_t step = -1;
  uint32_t comm = trace::kNoName;
  uint32_t algo = trace::kNoName;
  uint32_t kernel = trace::kNoName;
  uint32_t instance = UINT32_MAX;  ///< it belongs to, after match()
  uint32_t row = UINT32_MAX;       ///< of `collectives`, in file order; UINT32_MAX: recognised by its kernel
  int32_t stream = -1;
  uint32_t behaviour = 0;  ///< group of ranks that its kernel was seen to synchronise; 0: the trace tells what it is
  OpKind op = OpKind::other;
  bool exchange = false;  ///< made of sends and receives by mergeExchanges()
  bool blocks = false;    ///< computation stood still when it ended, and went on after
};

/// One operation of a communicator, over the ranks that are in the trace.
struct Instance {
  uint32_t first = 0, count = 0;  ///< in PartTable::order
  uint32_t comm = 0;              ///< index in PartTable::comms
  int64_t index = 0;              ///< number within its communicator
  OpKind op = OpKind::other;
  int32_t group_size = 0;  ///< ranks that should be there
  int64_t bytes = trace::kNull;
  int64_t first_start = 0, last_start = 0, first_end = 0, last_end = 0;
  int64_t wait_ns = 0;          ///< sum over its ranks of the time until the last came
  int64_t exposed_wait_ns = 0;  ///< of that, with no computation under it
  int32_t last_part = -1;       ///< part of the last to come, by index; −1: cannot be said
  int32_t step = -1;
  bool complete = false;   ///< all ranks are there
  bool possible = true;    ///< on each clock by itself no rank left before the last came, after findImpossible()
  bool consistent = true;  ///< no rank left before the last came, as far as the clocks allow to say

  int64_t transferNs() const { return last_end - last_start; }
};

/// Whether the last to come kept this rank. In a reduce or gather those that had sent their part had gone by then.
inline bool waitsForLast(const Instance& in, const Part& p) {
  return in.last_part >= 0 && (waitingIn(in.op) != model::Waiting::by_root || p.end >= in.last_start);
}

struct Communicator {
  std::string name;
  uint32_t algo = trace::kNoName;
  std::vector<int32_t> members;  ///< processes seen, ascending
  int32_t size = 0;
};

/// A rank's part in an operation that has no times: it was in flight when the recording ended. Or (hidden) it ran where
/// nobody measured it, in a CUDA graph for one; then it has ended if it has a correlation, and else nobody knows.
struct OpenPart {
  Part part;
  uint32_t op, node;  ///< names
  bool hidden = false;
};

struct PartTable {
  std::vector<Part> parts;                                  ///< by (process, ts)
  std::map<int64_t, std::pair<size_t, size_t>> of_process;  ///< range in parts
  std::vector<std::string> domains;                         ///< clock domains
  std::map<int64_t, uint32_t> domain_of;                    ///< by process
  std::map<int64_t, std::string> node_of;                   ///< by process, where it is known

  std::vector<OpenPart> open;
  std::vector<Part> merged;              ///< what mergeExchanges() made one of, as they were
  int64_t longest_ns = 0;                ///< of all parts
  std::map<int64_t, int64_t> device_of;  ///< by rank, where `collectives` says it

  std::set<uint32_t> by_pair;       ///< communicators whose sends and receives are numbered by pair, after match()
  std::vector<uint32_t> order;      ///< parts by instance
  std::vector<Instance> instances;  ///< by first_start
  std::vector<Communicator> comms;
  uint64_t unmatched = 0;  ///< parts whose communicator or ids contradict each other

  const std::string& domain(int64_t process) const;
};

/// Reads `collectives`, and which node a process is on.
Result<PartTable> loadParts(const trace::Reader& reader, const trace::NameNumbers& names);
/// Puts more parts (recognised by their kernels) to those of the table.
void addParts(PartTable& table, std::vector<Part> more);
/// Makes one part of the sends and receives with which one kernel exchanges data between all ranks of a communicator.
void mergeExchanges(PartTable& table);
/// Finds the instances: by (communicator, sequence), else by order within the process group.
Status match(const trace::Reader& reader, const trace::NameNumbers& names, PartTable& table);
/// Marks collectives that some rank would have left before another came, both on one clock: no clock can be blamed for
/// them, they are not one operation. Returns how many there are.
uint64_t findImpossible(PartTable& table);
/// Clocks of domains that are not known, from collectives that end together. Times of parts are raw.
/// Returns the domains for which there was no way to know.
std::vector<std::string> estimateClocks(const PartTable& table, trace::Clocks& clocks);
/// Synchronising collectives, of a sample, that some rank would have left before the last came. Times of parts are raw.
struct Contradictions {
  uint64_t checked = 0, wrong = 0;
};
Contradictions contradictions(const PartTable& table, const trace::Clocks& clocks);
/// Turns all times of parts into reference time and works out the instances.
void settle(PartTable& table, const trace::Clocks& clocks);
/// For operations on host threads, after settle(). The thread that ran one notes its end after it has woken the one
/// that waited, which may have called the next by then: where all ranks had come long before, it ended when the next
/// began.
void trimHostEnds(PartTable& table);

}  // namespace tracesmith::analysis
