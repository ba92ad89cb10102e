// The tree of tracks of a Perfetto trace: node → process → steps, collectives, threads, and GPUs with their streams.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "trace/export/lanes.hpp"
#include "trace/export/names.hpp"
#include "trace/export/perfetto_packets.hpp"

namespace tracesmith::trace {

/// A track whose slices may overlap: a second lane is a second track, "stream 7 (2)".
struct SliceTrack {
  std::string name;
  uint64_t parent = 0;
  int32_t order = 0;
  Lanes lanes{};
  std::vector<uint64_t> ids{};  ///< of the lanes that were described
};

/// Describes tracks when they are first asked for.
class PerfettoTracks {
 public:
  PerfettoTracks(PerfettoPackets& packets, const Names& names) : packets_(packets), names_(names) {}

  SliceTrack& thread(std::string_view node, int64_t rank, int64_t pid, int64_t tid);
  /// `annotations`: the ranges that span a stream's kernels, on a track of their own.
  SliceTrack& stream(std::string_view node, int64_t rank, int64_t pid, int64_t device, int64_t stream,
                     bool annotations);
  /// A track of a process with a name of its own: "steps", "collectives", …
  SliceTrack& ofProcess(std::string_view node, int64_t rank, int64_t pid, std::string_view name, int32_t order);
  uint64_t counterOfProcess(std::string_view node, int64_t rank, int64_t pid, const std::string& name);
  /// A metric of a node or, with a device, of its GPU.
  uint64_t counterOfNode(std::string_view node, int64_t device, const std::string& name, std::string_view unit);
  /// At the top.
  SliceTrack& top(const std::string& name, int32_t order);

  /// Begins a slice: the packet is open until finish().
  void begin(SliceTrack& track, int64_t ts, int64_t dur);
  void instant(SliceTrack& track, int64_t ts) { packets_.instant(ts, lane(track, 0)); }
  /// Ends every slice that is open, and forgets threads and streams (but not nodes): after each rank.
  void finishRank();

 private:
  enum class Kind { kThread, kStream, kAnnotations, kNamed, kCounter };
  using Key = std::tuple<Kind, std::string_view, int64_t, int64_t, int64_t, int64_t, std::string>;

  uint64_t lane(SliceTrack& track, size_t lane);
  uint64_t node(std::string_view name);
  uint64_t process(std::string_view node, int64_t rank, int64_t pid);
  uint64_t device(std::string_view node, int64_t rank, int64_t pid, int64_t device);

  PerfettoPackets& packets_;
  const Names& names_;
  std::map<std::string_view, uint64_t> nodes_;
  std::map<std::tuple<std::string_view, int64_t, int64_t>, uint64_t> processes_;
  std::map<std::tuple<std::string_view, int64_t, int64_t, int64_t>, uint64_t> devices_;
  std::map<Key, SliceTrack> tracks_;
  std::map<Key, uint64_t> counters_;
};

}  // namespace tracesmith::trace
