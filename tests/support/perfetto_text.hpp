// Perfetto traces for tests: decoded by protoc with tests/data/perfetto_subset.proto, with names and arguments
// resolved.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tracesmith::test {

struct PerfettoEvent {
  std::string type;  ///< BEGIN, END, INSTANT or COUNTER
  std::string name, category;
  uint64_t ts = 0, track = 0;
  double value = 0;  ///< of a counter
  std::vector<std::string> flows, last_flows;
  std::map<std::string, std::string> args;
};

struct PerfettoTrack {
  std::string name, unit;
  uint64_t parent = 0;
  bool counter = false;
};

struct PerfettoTrace {
  std::map<uint64_t, PerfettoTrack> tracks;
  std::vector<PerfettoEvent> events;  ///< in file order

  /// "node-a/rank 0 …/GPU 0 …/stream 7"
  std::string path(uint64_t track) const;
};

/// A complete slice, from a BEGIN and the END that belongs to it.
struct PerfettoSlice {
  const PerfettoEvent* begin;
  uint64_t end;
};

/// Decodes a file. Fails the calling test where protoc does, where a field is unknown, or where a name was not interned
/// before.
PerfettoTrace decodePerfetto(const std::string& path);
/// Pairs BEGIN and END as Perfetto does: events of a track by time, file order where times are equal.
/// Fails the calling test if one of them is left over, or if slices of a track overlap without nesting.
std::vector<PerfettoSlice> slicesOf(const PerfettoTrace& trace);

}  // namespace tracesmith::test
