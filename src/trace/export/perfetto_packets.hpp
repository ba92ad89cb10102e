// Packets of a Perfetto trace: track descriptors and track events with interned names.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "base/file.hpp"
#include "trace/export/protobuf_writer.hpp"

namespace tracesmith::trace {

/// Writes packets one after another. Names are interned within a sequence, which a rank has for itself.
class PerfettoPackets {
 public:
  explicit PerfettoPackets(BufferedWriter& out) : out_(out) {}

  void beginSequence();

  /// What a track is, beside its name.
  struct Track {
    uint64_t parent = 0;      ///< 0: at the top
    int32_t order = 0;        ///< among its siblings
    bool counter = false;     ///< holds values, not slices
    std::string_view unit{};  ///< of a counter
  };
  /// Describes a new track; returns its id.
  uint64_t track(std::string_view name, const Track& what);

  // An event: one of begin(), instant() or counter(), what belongs to it, then finish().
  void begin(int64_t ts, uint64_t track) { start(ts, track, kSliceBegin); }
  void instant(int64_t ts, uint64_t track) { start(ts, track, kInstant); }
  void name(std::string_view name);
  void category(std::string_view name);
  void flow(uint64_t id, bool last) { event_.fixed64(last ? 48 : 47, id); }
  void annotate(std::string_view key, int64_t value);
  void annotate(std::string_view key, double value);
  void annotate(std::string_view key, std::string_view value);
  void finish();

  void end(int64_t ts, uint64_t track);
  void counter(int64_t ts, uint64_t track, double value);

  /// The first failure to write.
  const Status& status() const { return status_; }

 private:
  enum Type { kSliceBegin = 1, kSliceEnd = 2, kInstant = 3, kCounter = 4 };
  /// Interned texts of one kind: their ids by text.
  struct Interned {
    int field;  ///< in InternedData
    std::unordered_map<std::string, uint64_t> ids{};
  };

  void start(int64_t ts, uint64_t track, Type type);
  uint64_t intern(Interned& kind, std::string_view text);
  size_t annotation(std::string_view key);
  void packet(int64_t ts, int field, const ProtobufWriter& content);

  BufferedWriter& out_;
  ProtobufWriter packet_, event_, descriptor_, interned_;
  int64_t ts_ = 0;
  uint64_t tracks_ = 0;
  uint32_t sequence_ = 0;
  bool fresh_ = false;  // nothing was written in this sequence yet
  Interned categories_{1}, names_{2}, keys_{3};
  std::string scratch_;
  Status status_;
};

}  // namespace tracesmith::trace
