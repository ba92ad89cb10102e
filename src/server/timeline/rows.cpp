#include "server/timeline/rows.hpp"

#include <algorithm>

#include "analysis/each_row.hpp"

namespace tracesmith::server {
namespace {

using trace::Kind;
using trace::kNull;

/// Where the columns of a drawn table are; -1: it has none of the kind.
struct Layout {
  int ts, dur, node, rank, pid, type, name, major, minor, tid;
};
constexpr int kColumns = 9;

Layout layoutOf(const trace::TableInfo& t) {
  if (&t == &trace::tableOf<trace::EventRow>()) {
    using namespace trace::events;
    return {ts, dur, node, rank, pid, type, name, device, stream, tid};
  }
  if (&t == &trace::tableOf<trace::CollectiveRow>()) {
    using namespace trace::collectives;
    return {ts, dur, node, rank, pid, -1, op, -1, -1, -1};
  }
  using namespace trace::steps;
  return {ts, dur, node, rank, pid, -1, name, step, -1, -1};  // the number stands in for a missing name
}

/// A column's value in a row, whether it is stored once or for every row.
class Cells {
 public:
  Cells(const trace::ColumnData& data, Kind kind) : data_(data), kind_(kind), constant_(data.constant()) {}
  int64_t at(size_t row) const {
    if (data_.allNull() || !data_.valid(row)) return kNull;
    const size_t i = constant_ ? 0 : row;
    switch (kind_) {
      case Kind::Int32:
        return static_cast<int32_t>(data_.data<uint32_t>()[i]);
      case Kind::Str:
        return data_.data<uint32_t>()[i];
      case Kind::Type:
        return data_.data<uint8_t>()[i];
      default:
        return data_.data<int64_t>()[i];
    }
  }
  bool same() const { return data_.allNull() || (constant_ && !data_.hasNulls()); }

 private:
  const trace::ColumnData& data_;
  const Kind kind_;
  const bool constant_;
};

int64_t addClamped(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

}  // namespace

const char* rowTypeName(uint8_t type) {
  if (type == kCollectiveType) return "collective";
  if (type == kStepType) return "step";
  return trace::eventTypeName(static_cast<trace::EventType>(type));
}

std::string rowName(const analysis::Names& names, uint32_t name) {
  if (name == analysis::kNoName) return "";
  if (name & kStepName) return "step " + std::to_string(name & ~kStepName);
  return std::string(names.text(name));
}

bool isDrawn(const trace::TableInfo& t) {
  return &t == &trace::tableOf<trace::EventRow>() || &t == &trace::tableOf<trace::CollectiveRow>() ||
         &t == &trace::tableOf<trace::StepRow>();
}

RowDecoder::RowDecoder(const trace::Reader& reader, const analysis::Names& names, const analysis::ClockModels& clocks)
    : names_(names), clocks_(clocks), decoder_(reader) {}

const std::vector<analysis::ClockSegment>* RowDecoder::clockOf(uint32_t node) {
  auto [it, added] = clock_of_.try_emplace(node, nullptr);
  if (added && node != analysis::kNoName) it->second = clocks_.find(std::string(names_.text(node)));
  return it->second;
}

bool RowDecoder::span(const trace::Block& block, int64_t& start, int64_t& end) {
  const Layout at = layoutOf(*block.table);
  int64_t low, high, end_low, end_high;
  if (!block.zone(at.ts, low, high)) return false;
  if (block.zone(block.table->find("ts_end"), end_low, end_high)) high = std::max(high, end_high);
  if (!decoder_.decode(block, at.node, columns_[2], true)) return false;
  const Cells nodes(columns_[2], Kind::Str);
  if (nodes.same()) {
    const auto* clock = clockOf(block.rows > 0 ? names_.of(block.stream, nodes.at(0)) : analysis::kNoName);
    start = analysis::ClockModels::toReference(clock, low);
    end = analysis::ClockModels::toReference(clock, high);
    return true;
  }
  // Several nodes, with clocks of their own.
  if (!decoder_.decode(block, at.ts, columns_[0], true) || !decoder_.decode(block, at.dur, columns_[1], true))
    return false;
  const Cells ts(columns_[0], Kind::Int), dur(columns_[1], Kind::Int);
  start = INT64_MAX;
  end = INT64_MIN;
  for (size_t r = 0; r < block.rows; ++r) {
    const int64_t raw = ts.at(r), d = dur.at(r);
    if (raw == kNull) continue;
    const auto* clock = clockOf(names_.of(block.stream, nodes.at(r)));
    start = std::min(start, analysis::ClockModels::toReference(clock, raw));
    end = std::max(
        end, analysis::ClockModels::toReference(clock, addClamped(raw, std::max<int64_t>(0, d == kNull ? 0 : d))));
  }
  return start <= end;
}

Status RowDecoder::decode(const trace::Block& block, TrackNumbers& tracks, TimelineRows& out) {
  const Layout at = layoutOf(*block.table);
  const bool events = block.table == &trace::tableOf<trace::EventRow>();
  const int wanted[kColumns] = {at.ts, at.dur, at.node, at.rank, at.pid, at.name, at.major, at.minor, at.type};
  trace::ColumnData tid_data;
  for (int c = 0; c < kColumns; ++c)
    if (wanted[c] >= 0) TS_TRY(decoder_.decode(block, wanted[c], columns_[c], true));
  if (at.tid >= 0) TS_TRY(decoder_.decode(block, at.tid, tid_data, true));
  auto cells = [&](int c) {
    return Cells(columns_[c], block.table->columns[static_cast<size_t>(std::max(0, wanted[c]))].kind);
  };
  const Cells ts = cells(0), dur = cells(1), nodes = cells(2), ranks = cells(3), pids = cells(4), name = cells(5),
              major = cells(6), minor = cells(7), type = cells(8);
  const Cells tids(tid_data, Kind::Int);
  const std::vector<uint32_t>& numbers = names_.stream(block.stream);
  const size_t rows = block.rows;
  out.ts.resize(rows);
  out.dur.resize(rows);
  out.name.resize(rows);
  out.track.resize(rows);
  out.type.resize(rows);
  TrackKey key;
  uint32_t node = analysis::kNoName;
  const std::vector<analysis::ClockSegment>* clock = nullptr;
  for (size_t r = 0; r < rows; ++r) {
    if (r == 0 || !nodes.same()) {
      const int64_t slot = nodes.at(r);
      const uint32_t n = slot >= 0 && static_cast<size_t>(slot) < numbers.size() ? numbers[static_cast<size_t>(slot)]
                                                                                 : analysis::kNoName;
      if (r == 0 || n != node) {
        node = n;
        clock = clockOf(n);
      }
    }
    const int64_t raw = ts.at(r);
    if (raw == kNull) {
      out.track[r] = kNoTrack;
      out.ts[r] = out.dur[r] = 0;
      continue;
    }
    out.ts[r] = analysis::ClockModels::toReference(clock, raw);
    const int64_t d = dur.at(r);
    out.dur[r] = d == kNull || d <= 0 ? 0 : analysis::ClockModels::toReference(clock, addClamped(raw, d)) - out.ts[r];
    const int64_t s = name.at(r);
    uint32_t number =
        s >= 0 && static_cast<size_t>(s) < numbers.size() ? numbers[static_cast<size_t>(s)] : analysis::kNoName;
    key.node = node;
    key.process = analysis::processOf(ranks.at(r), pids.at(r));
    if (events) {
      out.type[r] = static_cast<uint8_t>(std::clamp<int64_t>(type.at(r), 0, trace::kEventTypes - 1));
      key.major = major.at(r);
      key.kind = key.major != kNull ? TrackKind::kStream : TrackKind::kThread;
      key.minor = key.major != kNull ? minor.at(r) : tids.at(r);
    } else if (at.major >= 0) {
      out.type[r] = kStepType;
      const int64_t step = major.at(r);
      if (number == analysis::kNoName && step != kNull) number = kStepName | (static_cast<uint32_t>(step) & ~kStepName);
      key.kind = TrackKind::kSteps;
    } else {
      out.type[r] = kCollectiveType;
      key.kind = TrackKind::kCollectives;
    }
    out.name[r] = number;
    out.track[r] = tracks.of(key);
  }
  return {};
}

}  // namespace tracesmith::server
