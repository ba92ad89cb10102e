#include "server/timeline/rows.hpp"

#include <algorithm>

#include "analysis/rows/each_row.hpp"
#include "sync/recording_span.hpp"
#include "trace/layout.hpp"
#include "trace/stack_counts.hpp"

namespace tracesmith::server {
namespace {

using trace::kNull;

/// Where the columns of a drawn table are; -1: it has none of the kind.
struct Layout {
  int ts, dur, node, rank, pid, name, type, device, stream, tid, step, called, kernel, comm, peer;
};

Layout layoutOf(const trace::TableInfo& t) {
  if (&t == &trace::tableOf<trace::EventRow>()) {
    using namespace trace::events;
    return {ts, dur, node, rank, pid, name, type, device, stream, tid, -1, -1, -1, -1, -1};
  }
  if (&t == &trace::tableOf<trace::CollectiveRow>()) {
    using namespace trace::collectives;
    return {ts, dur, node, rank, pid, op, -1, -1, -1, -1, -1, ts_enqueue, name, comm, peer};
  }
  if (&t == &trace::tableOf<trace::StackRow>()) {
    using namespace trace::stacks;
    return {ts, dur, node, rank, pid, stack, -1, -1, -1, tid, -1, -1, -1, -1, -1};
  }
  using namespace trace::steps;
  return {ts, dur, node, rank, pid, name, -1, -1, -1, -1, step, -1, -1, -1, -1};
}

/// Values of a column, one for each row or one for all. T is what its kind is decoded to.
template <typename T>
class Values {
 public:
  Values() = default;  ///< NULL in every row
  explicit Values(const trace::ColumnData& data)
      : values_(data.allNull() ? nullptr : data.data<T>()),
        valid_(data.hasNulls() ? data.validity() : nullptr),
        mask_(data.constant() ? 0 : SIZE_MAX) {}
  int64_t at(size_t row) const {
    if (!values_ || (valid_ && !valid_[row])) return kNull;
    return static_cast<int64_t>(values_[row & mask_]);
  }
  bool same() const { return !values_ || (mask_ == 0 && !valid_); }

 private:
  const T* values_ = nullptr;
  const uint8_t* valid_ = nullptr;
  size_t mask_ = 0;
};

int64_t addClamped(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

}  // namespace

const char* rowTypeName(uint8_t type) {
  if (type == kCollectiveType) return "collective";
  if (type == kStepType) return "step";
  if (type == kStackType) return "stack";
  if (type == kInFlightType) return "in flight";
  return trace::eventTypeName(static_cast<trace::EventType>(type));
}

bool mayBeInFlight(const trace::Block& block) {
  int64_t low, high;
  return block.table == &trace::tableOf<trace::CollectiveRow>() &&
         block.zone(trace::collectives::ts_enqueue, low, high);
}

std::string rowName(const trace::NameNumbers& names, uint32_t name) {
  if (name == trace::kNoName) return "";
  if (name & kStepName) return "step " + std::to_string(name & ~kStepName);
  if (!(name & kStackName)) return std::string(names.text(name));
  const std::string_view stack = names.text(name & ~kStackName);
  return std::string(stack.substr(stack.rfind(trace::kFrameSeparator) + 1));
}

bool isDrawn(const trace::TableInfo& table) {
  return sync::isWork(table) || &table == &trace::tableOf<trace::StackRow>();
}

InFlight::InFlight(const trace::Reader& reader, const trace::NameNumbers& names) {
  const std::span<const trace::Block> blocks = reader.blocks();
  if (std::none_of(blocks.begin(), blocks.end(), mayBeInFlight)) return;
  for (uint32_t n = 0; n < names.size(); ++n) {
    if (names.text(n) == "send") send_ = n;
    if (names.text(n) == "recv") recv_ = n;
  }
  using trace::CollectiveRow;
  namespace col = trace::collectives;
  auto each = [&](auto take) {
    (void)analysis::eachRow<CollectiveRow>(
        reader, names,
        {col::ts, col::op, col::comm, col::node, col::rank, col::peer, col::pid, col::ts_enqueue, col::name},
        [&](const CollectiveRow& r, const auto&) {
          if (r.ts_enqueue != kNull) take(r, analysis::processOf(r.rank, r.pid));
        });
  };
  each([&](const CollectiveRow& r, int64_t process) {
    if (r.ts == kNull) return;
    int64_t& last = begun_.try_emplace(keyOf(r.node, process, r.comm, r.op, r.peer), INT64_MIN).first->second;
    last = std::max(last, r.ts_enqueue);
  });
  each([&](const CollectiveRow& r, int64_t process) {
    auto orNone = [](int64_t name) { return name == kNull ? trace::kNoName : static_cast<uint32_t>(name); };
    any_ = any_ || (r.ts == kNull && r.name == kNull &&
                    waits(orNone(r.node), process, orNone(r.comm), orNone(r.op), r.peer, r.ts_enqueue));
  });
}

InFlight::Key InFlight::keyOf(int64_t node, int64_t process, int64_t comm, int64_t op, int64_t peer) const {
  // A send does not wait for those to others.
  const bool to_peer = op != kNull && (op == send_ || op == recv_);
  return {node, process, comm, to_peer ? peer : kNull};
}

bool InFlight::waits(uint32_t node, int64_t process, int64_t comm, int64_t op, int64_t peer, int64_t called) const {
  if (begun_.empty()) return false;  // nothing is known of when any began
  auto orNull = [](int64_t name) { return name == trace::kNoName ? kNull : name; };
  const auto it = begun_.find(keyOf(orNull(node), process, orNull(comm), orNull(op), peer));
  return it == begun_.end() || called > it->second;
}

RowDecoder::RowDecoder(const trace::Reader& reader, const trace::NameNumbers& names, const trace::Clocks& clocks)
    : names_(names), clocks_(clocks), decoder_(reader) {}

const trace::ClockTable& RowDecoder::clockOf(uint32_t node) {
  auto [it, added] = clock_of_.try_emplace(node, nullptr);
  if (added) it->second = &trace::clockOf(clocks_, node == trace::kNoName ? "" : std::string(names_.text(node)));
  return *it->second;
}

/// A column the block does not have is not decoded: that would fill a row's worth of zeros for each.
template <typename V>
Status RowDecoder::load(const trace::Block& block, int column, trace::ColumnData& data, V& values) {
  if (column < 0 || !block.find(column)) return {};
  TS_TRY(decoder_.decode(block, column, data, true));
  values = V(data);
  return {};
}

Status RowDecoder::decode(const trace::Block& block, TrackNumbers& tracks, TimelineRows& out) {
  const Layout at = layoutOf(*block.table);
  const bool events = at.type >= 0, stacks = block.table == &trace::tableOf<trace::StackRow>();
  Values<int64_t> ts, dur, pids, streams, tids, steps, called;
  Values<uint32_t> nodes, name, kernel, comms;
  Values<int32_t> ranks, devices, peers;
  Values<uint8_t> type;
  TS_TRY(load(block, at.ts, columns_[0], ts));
  TS_TRY(load(block, at.dur, columns_[1], dur));
  TS_TRY(load(block, at.node, columns_[2], nodes));
  TS_TRY(load(block, at.rank, columns_[3], ranks));
  // Where every row has a rank, nobody asks for the process.
  const trace::ColumnEntry* rank = block.find(at.rank);
  if (!rank || rank->values < block.rows) TS_TRY(load(block, at.pid, columns_[4], pids));
  TS_TRY(load(block, at.name, columns_[5], name));
  TS_TRY(load(block, at.type, columns_[6], type));
  TS_TRY(load(block, at.device, columns_[7], devices));
  TS_TRY(load(block, at.stream, columns_[8], streams));
  const trace::ColumnEntry* device = at.device < 0 ? nullptr : block.find(at.device);
  if (!device || device->values < block.rows) TS_TRY(load(block, at.tid, columns_[9], tids));
  TS_TRY(load(block, at.step, columns_[10], steps));
  const trace::ColumnEntry* times = block.find(at.ts);
  if (in_flight_ && mayBeInFlight(block) && (!times || times->values < block.rows)) {
    TS_TRY(load(block, at.called, columns_[11], called));
    TS_TRY(load(block, at.kernel, columns_[12], kernel));
    TS_TRY(load(block, at.comm, columns_[13], comms));
    TS_TRY(load(block, at.peer, columns_[14], peers));
  }

  const std::vector<uint32_t>& numbers = names_.stream(block.stream);
  auto nameOf = [&](int64_t slot) {
    return slot >= 0 && static_cast<size_t>(slot) < numbers.size() ? numbers[static_cast<size_t>(slot)]
                                                                   : trace::kNoName;
  };
  const size_t rows = block.rows;
  out.ts.resize(rows);
  out.dur.resize(rows);
  out.name.resize(rows);
  out.track.resize(rows);
  out.type.resize(rows);
  TrackKey key;
  trace::RowClock clock;
  const bool one_node = nodes.same();
  for (size_t r = 0; r < rows; ++r) {
    if (r == 0 || !one_node) {
      const uint32_t n = nameOf(nodes.at(r));
      if (r == 0 || n != key.node) clock = trace::RowClock(clockOf(n));
      key.node = n;
    }
    int64_t raw = ts.at(r);
    key.process = analysis::processOf(ranks.at(r), pids.at(r));
    // Without a time and without a kernel: it waits to this day.
    const bool open =
        raw == kNull && called.at(r) != kNull && kernel.at(r) == kNull &&
        in_flight_->waits(key.node, key.process, nameOf(comms.at(r)), nameOf(name.at(r)), peers.at(r), called.at(r));
    if (open) raw = called.at(r);
    if (raw == kNull) {
      out.track[r] = kNoTrack;
      out.ts[r] = out.dur[r] = 0;
      out.name[r] = trace::kNoName;
      out.type[r] = 0;
      continue;
    }
    out.ts[r] = clock.toReference(raw);
    const int64_t d = dur.at(r);
    out.dur[r] = d == kNull || d <= 0 ? 0 : clock.toReference(addClamped(raw, d)) - out.ts[r];
    if (open) out.dur[r] = std::max<int64_t>(0, in_flight_->end() - out.ts[r]);
    uint32_t number = nameOf(name.at(r));
    if (events) {
      out.type[r] = static_cast<uint8_t>(std::clamp<int64_t>(type.at(r), 0, trace::kEventTypes - 1));
      key.major = devices.at(r);
      // Ranges of a GPU last as long as the kernels in them, and would hide them; so would Python's frames.
      const bool on_device = key.major != kNull;
      const auto is = [&](trace::EventType t) { return out.type[r] == static_cast<uint8_t>(t); };
      if (on_device)
        key.kind = is(trace::EventType::gpu_annotation) ? TrackKind::gpu_ranges : TrackKind::stream;
      else
        key.kind = is(trace::EventType::python) ? TrackKind::python : TrackKind::thread;
      key.minor = key.major != kNull ? streams.at(r) : tids.at(r);
      if (!on_device && isOtherThread(tids.at(r))) key.minor = kOtherThread;
    } else if (stacks) {
      out.type[r] = kStackType;
      if (number != trace::kNoName) number |= kStackName;
      key.kind = TrackKind::stacks;
      key.minor = tids.at(r);
    } else if (at.step >= 0) {
      out.type[r] = kStepType;
      // The number stands in for a missing name.
      const int64_t step = number == trace::kNoName ? steps.at(r) : kNull;
      if (step != kNull) number = kStepName | (static_cast<uint32_t>(step) & ~kStepName);
      key.kind = TrackKind::steps;
    } else {
      out.type[r] = open ? kInFlightType : kCollectiveType;
      key.kind = TrackKind::collectives;
    }
    out.name[r] = number;
    out.track[r] = tracks.of(key);
  }
  return {};
}

}  // namespace tracesmith::server
