#include "cluster/wire/merge.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/file.hpp"
#include "cluster/wire/checkpoint.hpp"
#include "cluster/wire/damage.hpp"
#include "cluster/wire/role_ranks.hpp"
#include "sync/exchange.hpp"
#include "trace/batch.hpp"
#include "trace/clocks.hpp"
#include "trace/encoding.hpp"
#include "tracesmith/trace/reader.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::cluster {

using namespace trace;

namespace {

constexpr size_t kLeastLeftOut = 256;  // to name bytes that are left out takes about a tenth of this

/// Times of the session on one node's clock.
struct Span {
  int64_t from, to;
};

class Merge {
 public:
  Merge(const SessionRecord& session, const TraceSink& sink, const LeaveOut& leave_out)
      : session_(session), sink_(sink), leave_out_(leave_out) {}
  /// What this one has written is not written again by that one.
  void continueFrom(Merge&& before) {
    sequence_ = before.sequence_;
    streams_ = before.streams_;
    seen_ = std::move(before.seen_);
    taken_ = std::move(before.taken_);
    told_ = std::move(before.told_);
    clocks_ = std::move(before.clocks_);
    roles_ = std::move(before.roles_);
  }

  Status begin();
  Status add(const SegmentInfo& segment);
  /// These, and what add() found.
  Status tell(const std::vector<SessionLoss>& losses);
  Status end() { return write(std::string(endBlock(0)), 0, 0); }

 private:
  enum class Place { kOutside, kInside, kPartly };
  Place place(const BlockBytes& block) const;
  bool wants(bool summary, uint32_t stream) const;
  bool belongs(int64_t start, int64_t end) const;
  Status copyRows(const Reader& reader, const Block& block, uint32_t stream);
  Status write(std::string block, uint32_t stream, uint64_t events);
  bool leftOut(const TableInfo& table) const {
    return !leave_out_.tables.empty() && !leave_out_.tables.contains(table.name) && table.find("ts") >= 0 &&
           &table != &tableOf<LossRow>();
  }
  bool leavesColumnsOut(const BlockBytes& block) const;
  Stretch blockAtFront(std::string_view bytes) const;
  Status copyBlock(const SegmentInfo& segment, uint64_t at, const BlockBytes& block, uint32_t stream);
  void lost(const SegmentInfo& segment, const std::vector<DamageCount::Lost>& all);
  Status gone(const SegmentInfo& segment, const Status& status);

  const SessionRecord& session_;
  const TraceSink& sink_;
  const LeaveOut& leave_out_;
  std::vector<Span> spans_;  // of the node at hand
  uint64_t sequence_ = 0;
  uint32_t streams_ = 1;                  // 0 is ours
  std::unordered_set<std::string> seen_;  // rows without a time: each once
  struct Taken {
    uint32_t stream = 0;  // of its first one
    size_t bytes = 0;
    bool summary = false;  // it has one
    DamageCount damage;
  };
  std::map<std::string, Taken> taken_;  // of segments, by path
  std::vector<SessionLoss> found_;      // since the last tell()
  std::set<SessionLoss> told_;
  trace::Clocks clocks_;  // of the segments before, by node
  RoleRanks roles_;
  Encoder encoder_{1};
};

Status Merge::write(std::string block, uint32_t stream, uint64_t events) {
  seal(block, sequence_++, stream);
  return sink_(block, events);
}

/// Of a block that lies in the session. Whoever reads an outline wants to know at once what is lost, and whether nodes
/// are simulated.
bool Merge::leavesColumnsOut(const BlockBytes& block) const {
  const TableInfo* table = block.table();
  return leave_out_.columns && table &&
         block.bytes.size() - sizeof(BlockHeader) - block.header.directory_size >= kLeastLeftOut &&
         table != &tableOf<LossRow>() && table != &tableOf<NodeRow>() && !roles_.changes(*table);
}

/// The block at the front of some bytes. Columns that stay here are not looked at: an outline reads little of the disk,
/// and who reads them later checks them.
Stretch Merge::blockAtFront(std::string_view bytes) const {
  if (leave_out_.columns) {
    const Stretch found = stretchAt(bytes, false);
    const TableInfo* table = found.sound ? found.block.table() : nullptr;
    if (table && (leftOut(*table) || (leavesColumnsOut(found.block) && place(found.block) != Place::kPartly)))
      return found;
  }
  return stretchAt(bytes, true);
}

Status Merge::copyBlock(const SegmentInfo& segment, uint64_t at, const BlockBytes& block, uint32_t stream) {
  if (leavesColumnsOut(block)) {
    std::string start(block.bytes.substr(0, sizeof(BlockHeader) + block.header.directory_size));
    seal(start, sequence_++, stream);
    return leave_out_.columns(start, segment, at + start.size(), block.bytes.size() - start.size());
  }
  return write(std::string(block.bytes), stream, block.table() == &tableOf<EventRow>() ? block.header.rows : 0);
}

/// The file's header and what only the session itself knows.
Status Merge::begin() {
  WriterOptions options;
  options.created_ns = session_.start_ns;
  bool header = true;
  Result<std::unique_ptr<Writer>> writer = Writer::create(
      [&](std::string_view bytes) {
        return std::exchange(header, false) ? sink_(bytes, 0) : write(std::string(bytes), 0, 0);
      },
      options);
  if (!writer) return writer.status();
  auto out = (*writer)->appender();
  SessionRow row;
  row.name = (*writer)->string(session_.name);
  row.id = (*writer)->string(session_.id);
  row.ts_start = session_.start_ns;
  if (session_.end_ns != 0) row.ts_end = session_.end_ns;
  row.source = (*writer)->string("cluster");
  row.args =
      out->text("{\"freq_ms\":" + std::to_string(session_.freq_ms) + ",\"keep\":\"" + nameOf(session_.keep) + "\"}");
  TS_TRY(out->append(row));
  if (session_.removed_rows > 0) {
    LossRow loss;
    loss.cause = (*writer)->string("retention");
    loss.count = static_cast<int64_t>(session_.removed_rows);
    loss.detail = out->text("older data was removed because of --max-age or --max-bytes");
    TS_TRY(out->append(loss));
  }
  TS_TRY(out->flush());
  return (*writer)->flushStrings();
}

/// Of a stream of its own: its names are in nobody else's numbering. Each loss is told once.
Status Merge::tell(const std::vector<SessionLoss>& losses) {
  for (const SessionLoss& loss : losses)
    if (told_.insert(loss).second) found_.push_back(loss);
  if (found_.empty()) return {};
  bool header = true;
  const uint32_t stream = streams_++;
  Result<std::unique_ptr<Writer>> writer = Writer::create(
      [&](std::string_view bytes) {
        return std::exchange(header, false) ? Status() : write(std::string(bytes), stream, 0);
      },
      {});
  if (!writer) return writer.status();
  auto out = (*writer)->appender();
  for (const SessionLoss& loss : std::exchange(found_, {})) {
    LossRow row;
    row.node = (*writer)->string(loss.node);
    row.cause = (*writer)->string(loss.cause);
    if (loss.count) row.count = static_cast<int64_t>(*loss.count);
    row.detail = out->text(loss.detail);
    TS_TRY(out->append(row));
  }
  TS_TRY(out->flush());
  return (*writer)->flushStrings();
}

void Merge::lost(const SegmentInfo& segment, const std::vector<DamageCount::Lost>& all) {
  for (const DamageCount::Lost& l : all)
    found_.push_back({segment.node, "damaged", l.rows, segmentFile(segment.epoch, segment.number) + ": " + l.detail});
}

/// Retention may remove a segment after it was listed; other problems are the caller's.
Status Merge::gone(const SegmentInfo& segment, const Status& status) {
  if (status.code() != Code::kNotFound) return status;
  found_.push_back({segment.node, "retention", segment.rows, "removed while this trace was made"});
  return {};
}

/// Of a segment with or without a summary. That is for sessions that keep no more; rows as they are for the others.
bool Merge::wants(bool summary, uint32_t stream) const {
  if (session_.keep != model::Keep::summary) return stream != kSummaryStream;
  return summary && stream != kWholeStream;
}

bool Merge::belongs(int64_t start, int64_t end) const {
  return std::any_of(spans_.begin(), spans_.end(), [&](const Span& s) { return start < s.to && end >= s.from; });
}

Merge::Place Merge::place(const BlockBytes& block) const {
  int64_t low, high;
  if (!block.table() || !block.times(low, high)) return Place::kPartly;
  if (!belongs(low, high)) {
    // Rows without a time belong to everybody.
    const auto& table = *block.table();
    for (size_t i = 0; i < block.header.columns; ++i) {
      ColumnEntry e;
      std::memcpy(&e, block.bytes.data() + sizeof(BlockHeader) + i * sizeof e, sizeof e);
      if (e.column == table.columns[static_cast<size_t>(table.find("ts"))].id)
        return e.values < block.header.rows ? Place::kPartly : Place::kOutside;
    }
  }
  const bool inside =
      std::any_of(spans_.begin(), spans_.end(), [&](const Span& s) { return low >= s.from && high < s.to; });
  return inside ? Place::kInside : Place::kPartly;
}

Status Merge::copyRows(const Reader& reader, const Block& block, uint32_t stream) {
  const TableInfo& table = *block.table;
  const size_t columns = table.columns.size();
  std::vector<ColumnData> data(columns);
  BlockDecoder decoder(reader);
  for (size_t c = 0; c < columns; ++c) TS_TRY(decoder.decode(block, static_cast<int>(c), data[c]));
  Result<const Strings*> strings = reader.strings(block.stream);
  if (!strings) return strings.status();
  const int ts = table.find("ts"), end = table.find("ts_end");
  Batch batch(table);
  std::vector<int64_t> slots(columns);
  std::string texts, key;
  for (size_t r = 0; r < block.rows; ++r) {
    texts.clear();
    for (size_t c = 0; c < columns; ++c) {
      const Kind kind = table.columns[c].kind;
      slots[c] = slotAt(data[c], kind, r);
      if (slots[c] == kNull || kind != Kind::Text) continue;
      const std::string_view text = data[c].textAt(r);
      slots[c] = textSlot(texts.size(), text.size());
      texts.append(text);
    }
    roles_.apply(table, slots.data());
    if (ts >= 0 && slots[static_cast<size_t>(ts)] != kNull) {
      const int64_t start = slots[static_cast<size_t>(ts)];
      const int64_t last = end >= 0 ? slots[static_cast<size_t>(end)] : kNull;
      if (!belongs(start, last == kNull ? start : last)) continue;
    } else if (&table != &tableOf<ClockRow>() && ts < 0) {
      // Every segment says who its processes are: once is enough.
      key = table.name;
      for (size_t c = 0; c < columns; ++c) {
        const Kind kind = table.columns[c].kind;
        key += '\0';
        if (kind == Kind::Str && slots[c] != kNull)
          key += (*strings)->at(slots[c]);
        else if (kind != Kind::Text)
          key += std::to_string(slots[c]);
      }
      if (!seen_.insert(key + '\0' + texts).second) continue;
    }
    batch.append(slots.data(), texts);
  }
  if (batch.rows() == 0) return {};
  const uint64_t rows = batch.rows();
  return write(batch.encode(encoder_), stream, &table == &tableOf<EventRow>() ? rows : 0);
}

Status Merge::add(const SegmentInfo& segment) {
  if (auto it = taken_.find(segment.path); it != taken_.end() && it->second.bytes >= segment.size) return {};
  Result<std::unique_ptr<Reader>> reader = Reader::open(segment.path);
  if (!reader) return gone(segment, reader.status());
  Result<trace::Clocks> clocks = trace::readClocks(**reader);
  if (!clocks) return clocks.status();
  // A segment is of one node and has its clock. Where that is damaged, the one of the segment before is close enough.
  trace::ClockTable clock = clockOf(*clocks, segment.node);
  if (clock.empty() && clocks->size() == 1) clock = clocks->begin()->second;
  trace::ClockTable& last_clock = clocks_[segment.node];
  if (clock.empty())
    clock = last_clock;
  else
    last_clock = clock;
  clock.preferLater();  // where the session is cut
  // From the start to the end, without the pauses.
  spans_.clear();
  int64_t from = session_.start_ns;
  for (const auto& [stopped, resumed] : session_.pauses) {
    spans_.push_back({clock.toRaw(from), clock.toRaw(stopped)});
    from = resumed;
  }
  spans_.push_back({clock.toRaw(from), session_.end_ns == 0 ? INT64_MAX : clock.toRaw(session_.end_ns)});
  const bool rows = segment.first_ns <= segment.last_ns;
  if (rows && !belongs(segment.first_ns, segment.last_ns)) return {};
  if (!rows &&
      (segment.covered_ns < session_.start_ns || (session_.end_ns != 0 && segment.first_covered_ns > session_.end_ns)))
    return {};

  TS_TRY(roles_.look(**reader, segment.node));
  Result<File> file = File::openRead(segment.path);
  if (!file) return gone(segment, file.status());
  const size_t size = std::min(segment.size, (*reader)->fileSize());
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->fd(), 0);
  if (memory == MAP_FAILED) return errnoStatus("map", segment.path);
  std::unique_ptr<void, std::function<void(void*)>> unmap(memory, [&](void* p) { ::munmap(p, size); });
  const std::string_view bytes(static_cast<const char*>(memory), size);

  Taken& taken = taken_[segment.path];
  if (taken.bytes == 0) {
    taken = {streams_, sizeof(FileHeader), false, {}};
    streams_ += kSegmentStreams;
  }
  auto known = (*reader)->blocks().begin();
  const auto last = (*reader)->blocks().end();
  for (size_t& at = taken.bytes; at < size;) {
    const Stretch found = blockAtFront(bytes.substr(at));
    if (!found.sound) {
      if (found.empty)
        taken.damage.damagedCheckpoint(found.sequence);
      else
        taken.damage.damaged(at, found.size, found.rows);
      at += found.size;
      continue;
    }
    const BlockBytes* block = &found.block;
    const BlockHeader& h = block->header;
    if (isDamaged(*block)) taken.damage.damaged(at, h.block_size, h.rows);
    lost(segment, taken.damage.sound(*block));
    while (known != last && known->offset < at) ++known;
    taken.summary |= h.stream == kSummaryStream;
    const uint32_t stream = taken.stream + h.stream;
    if (h.stream >= kSegmentStreams || !wants(taken.summary, h.stream)) {
    } else if (h.table == kStringsTable) {
      TS_TRY(write(std::string(block->bytes), stream, 0));
    } else if (known != last && known->offset == at && !leftOut(*known->table)) {
      switch (place(*block)) {
        case Place::kInside:
          if (roles_.changes(*known->table)) {
            TS_TRY(copyRows(**reader, *known, stream));
            break;
          }
          TS_TRY(copyBlock(segment, at, *block, stream));
          break;
        case Place::kPartly:
          TS_TRY(copyRows(**reader, *known, stream));
          break;
        case Place::kOutside:
          break;
      }
    }
    at += h.block_size;
  }
  lost(segment, taken.damage.end());
  return {};
}

}  // namespace

class GrowingSession::Impl {
 public:
  std::unique_ptr<Merge> last;
  SessionRecord session;
  TraceSink sink;
  LeaveOut nothing;
};

GrowingSession::GrowingSession() : impl_(std::make_unique<Impl>()) {}
GrowingSession::~GrowingSession() = default;

Status GrowingSession::more(const SessionRecord& session, const std::vector<SegmentInfo>& segments,
                            const std::vector<SessionLoss>& losses, const TraceSink& sink) {
  const std::unique_ptr<Merge> before = std::move(impl_->last);
  impl_->session = session;
  impl_->sink = sink;
  impl_->last = std::make_unique<Merge>(impl_->session, impl_->sink, impl_->nothing);
  Merge& merge = *impl_->last;
  if (before)
    merge.continueFrom(std::move(*before));
  else
    TS_TRY(merge.begin());
  for (const SegmentInfo& segment : segments) TS_TRY(merge.add(segment));
  return merge.tell(losses);
}

Status mergeSession(const SessionRecord& session, const std::vector<SegmentInfo>& segments,
                    const std::vector<SessionLoss>& losses, const TraceSink& sink, const LeaveOut& leave_out) {
  Merge merge(session, sink, leave_out);
  TS_TRY(merge.begin());
  for (const SegmentInfo& segment : segments) TS_TRY(merge.add(segment));
  TS_TRY(merge.tell(losses));
  return merge.end();
}

}  // namespace tracesmith::cluster
