#include "trace/export/perfetto_packets.hpp"

// Numbers below are of fields in Perfetto's protos; tests/data/perfetto_subset.proto names them.
namespace tracesmith::trace {
namespace {

constexpr int kTracePacket = 1;
// TracePacket
constexpr int kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11, kInternedData = 12, kSequenceFlags = 13,
              kTrackDescriptor = 60;
constexpr int kStateCleared = 1, kNeedsState = 2;  // sequence flags
constexpr int kExplicitOrder = 3, kNeverMerge = 2;

}  // namespace

void PerfettoPackets::beginSequence() {
  ++sequence_;
  fresh_ = true;
  for (Interned* kind : {&categories_, &names_, &keys_}) kind->ids.clear();
}

void PerfettoPackets::packet(int64_t ts, int field, const ProtobufWriter& content) {
  packet_.clear();
  size_t packet = packet_.begin(kTracePacket);
  if (field == kTrackEvent) packet_.integer(kTimestamp, ts);
  packet_.integer(kSequenceId, sequence_);
  packet_.integer(kSequenceFlags, fresh_ ? kStateCleared | kNeedsState : kNeedsState);
  fresh_ = false;
  if (!interned_.empty()) packet_.bytes(kInternedData, interned_.data());
  interned_.clear();
  packet_.bytes(field, content.data());
  packet_.end(packet);
  if (status_.ok()) status_ = out_.write(packet_.data());
}

uint64_t PerfettoPackets::track(std::string_view name, const Track& what) {
  descriptor_.clear();
  descriptor_.integer(1, static_cast<int64_t>(++tracks_));
  descriptor_.text(2, name);
  if (what.parent) descriptor_.integer(5, static_cast<int64_t>(what.parent));
  if (what.counter) {
    size_t counter = descriptor_.begin(8);
    if (!what.unit.empty()) descriptor_.text(6, what.unit);
    descriptor_.end(counter);
  }
  descriptor_.integer(11, kExplicitOrder);
  descriptor_.integer(12, what.order);
  descriptor_.integer(15, kNeverMerge);
  packet(0, kTrackDescriptor, descriptor_);
  return tracks_;
}

void PerfettoPackets::start(int64_t ts, uint64_t track, Type type) {
  ts_ = ts;
  event_.clear();
  event_.integer(9, type);
  event_.integer(11, static_cast<int64_t>(track));
}

uint64_t PerfettoPackets::intern(Interned& kind, std::string_view text) {
  scratch_.assign(text);
  auto [it, first] = kind.ids.try_emplace(scratch_, kind.ids.size() + 1);
  if (first) {
    size_t entry = interned_.begin(kind.field);
    interned_.integer(1, static_cast<int64_t>(it->second));
    interned_.text(2, text);
    interned_.end(entry);
  }
  return it->second;
}

void PerfettoPackets::name(std::string_view name) { event_.integer(10, static_cast<int64_t>(intern(names_, name))); }

void PerfettoPackets::category(std::string_view name) {
  event_.integer(3, static_cast<int64_t>(intern(categories_, name)));
}

size_t PerfettoPackets::annotation(std::string_view key) {
  auto id = static_cast<int64_t>(intern(keys_, key));
  size_t message = event_.begin(4);
  event_.integer(1, id);
  return message;
}

void PerfettoPackets::annotate(std::string_view key, int64_t value) {
  size_t message = annotation(key);
  event_.integer(4, value);
  event_.end(message);
}

void PerfettoPackets::annotate(std::string_view key, double value) {
  size_t message = annotation(key);
  event_.real(5, value);
  event_.end(message);
}

void PerfettoPackets::annotate(std::string_view key, std::string_view value) {
  size_t message = annotation(key);
  event_.text(6, value);
  event_.end(message);
}

void PerfettoPackets::finish() { packet(ts_, kTrackEvent, event_); }

void PerfettoPackets::end(int64_t ts, uint64_t track) {
  start(ts, track, kSliceEnd);
  finish();
}

void PerfettoPackets::counter(int64_t ts, uint64_t track, double value) {
  start(ts, track, kCounter);
  event_.real(44, value);
  finish();
}

}  // namespace tracesmith::trace
