#include "cluster/master/span_feed.hpp"

#include <algorithm>
#include <cstring>

#include <xxhash.h>

#include "trace/clocks.hpp"
#include "trace/rows.hpp"

namespace tracesmith::cluster {

using namespace trace;
using sink::Span;

namespace {

constexpr size_t kMostSpans = 4000;  // handed over at once

/// Ids are made from what a span is about: the same row has the same id whenever it is sent.
template <typename Id>
void makeId(Id& id, const std::string& text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  std::memcpy(id.data(), bytes.digest, id.size());
}

std::string number(int64_t slot) { return slot == kNull ? "-" : std::to_string(slot); }

/// A step of a process; all spans of it are one trace.
std::string stepKey(const SegmentInfo& s, int64_t pid, int64_t step) {
  return s.node + " " + s.epoch + " " + number(pid) + " " + number(step);
}

void addNumber(Span& span, const char* key, int64_t slot) {
  if (slot != kNull) span.attributes.emplace_back(key, slot);
}
void addText(Span& span, const char* key, std::string_view text) {
  if (text.data()) span.attributes.emplace_back(key, std::string(text));
}

Span stepSpan(const SegmentInfo& segment, const Row& row) {
  Span span;
  const std::string key = stepKey(segment, row.slot(steps::pid), row.slot(steps::step));
  makeId(span.trace_id, key);
  makeId(span.id, "step " + key);
  span.name = "step";
  addNumber(span, "tracesmith.step", row.slot(steps::step));
  addNumber(span, "tracesmith.rank", row.slot(steps::rank));
  addNumber(span, "process.pid", row.slot(steps::pid));
  return span;
}

Span collectiveSpan(const SegmentInfo& segment, const Row& row) {
  namespace c = trace::collectives;
  Span span;
  const std::string step = stepKey(segment, row.slot(c::pid), row.slot(c::step));
  const std::string own = "collective " + step + " " + std::string(row.text(c::comm)) + " " + number(row.slot(c::seq)) +
                          " " + std::string(row.text(c::op)) + " " + number(row.slot(c::peer)) + " " +
                          number(row.slot(c::ts));
  const bool in_step = row.slot(c::step) != kNull;
  makeId(span.trace_id, in_step ? step : "alone " + own);
  makeId(span.id, own);
  if (in_step) makeId(span.parent_id, "step " + step);
  span.name = row.text(c::op).data() ? std::string(row.text(c::op)) : "collective";
  addNumber(span, "tracesmith.step", row.slot(c::step));
  addNumber(span, "tracesmith.rank", row.slot(c::rank));
  addNumber(span, "process.pid", row.slot(c::pid));
  addText(span, "tracesmith.comm", row.text(c::comm));
  addNumber(span, "tracesmith.seq", row.slot(c::seq));
  addNumber(span, "tracesmith.bytes", row.slot(c::bytes));
  addNumber(span, "tracesmith.ranks", row.slot(c::group_size));
  addNumber(span, "tracesmith.peer", row.slot(c::peer));
  addNumber(span, "tracesmith.gpu", row.slot(c::device));
  return span;
}

}  // namespace

Result<std::unique_ptr<SpanFeed>> SpanFeed::start(const Store& store, sink::Exports& exports,
                                                  const sink::Options& options) {
  std::unique_ptr<SpanFeed> feed(new SpanFeed(store, exports));
  feed->collectives_ = options.spans == "all";
  feed->interval_s_ = options.interval_s;
  bool found = false;
  TS_TRY(feed->marks_.open(options.folder + "/spans", found));
  if (!found)
    for (const std::string& node : store.nodes())
      for (const SegmentInfo& s : store.segments(node)) feed->marks_.set(s, s.size);
  TS_TRY(feed->marks_.save());
  feed->thread_ = std::thread([f = feed.get()] { f->loop(); });
  return feed;
}

SpanFeed::~SpanFeed() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SpanFeed::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    look();
    (void)marks_.save();  // a full disk: what is sent twice has the same ids
    lock.lock();
    changed_.wait_for(lock, std::chrono::duration<double>(interval_s_), [&] { return stop_; });
  }
}

void SpanFeed::look() {
  for (const std::string& node : store_.nodes()) {
    for (const SegmentInfo& s : store_.segments(node)) {
      marks_.keep(s);
      const uint64_t from = marks_.of(s), to = std::min(s.durable, s.size);
      if (from >= to) continue;
      {
        std::lock_guard lock(mutex_);
        if (stop_ || !exports_.hasRoom()) return;
      }
      if (send(s, from, to)) marks_.set(s, to);  // else it was removed, or the disk fails: looked at again
    }
    marks_.tidy(node);
  }
}

Status SpanFeed::send(const SegmentInfo& segment, uint64_t from, uint64_t to) {
  Result<std::unique_ptr<Reader>> reader = Reader::open(segment.path);
  if (!reader) return reader.status();
  Result<Clocks> clocks = readClocks(**reader);
  if (!clocks) return clocks.status();
  RowClock clock(clockOf(*clocks, segment.node));
  std::vector<Span> spans;
  auto read = [&](const TableInfo& table, std::vector<int> columns, int ts, int dur, auto make) -> Status {
    BlockRows rows(**reader, table, {}, std::move(columns));
    for (const Block* block : rows.candidates()) {
      if (block->offset < from || block->offset >= to || block->stream == kSummaryStream) continue;
      if (!rows.load(*block)) {
        TS_TRY(rows.status());
        continue;
      }
      for (const uint32_t r : rows.rows()) {
        const Row row{&rows, r};
        if (row.slot(ts) == kNull || row.slot(dur) == kNull) continue;  // it was not seen to run: no stretch of time
        Span span = make(segment, row);
        span.node = segment.node;
        span.start_ns = clock.toReference(row.slot(ts));
        span.end_ns = clock.toReference(row.slot(ts) + row.slot(dur));
        spans.push_back(std::move(span));
        if (spans.size() < kMostSpans) continue;
        exports_.spans(spans);
        spans.clear();
      }
    }
    return {};
  };
  namespace c = trace::collectives;
  TS_TRY(read(tableOf<StepRow>(), {steps::ts, steps::dur, steps::rank, steps::pid, steps::step}, steps::ts, steps::dur,
              stepSpan));
  if (collectives_)
    TS_TRY(read(
        tableOf<CollectiveRow>(),
        {c::ts, c::dur, c::op, c::comm, c::seq, c::rank, c::group_size, c::peer, c::bytes, c::device, c::step, c::pid},
        c::ts, c::dur, collectiveSpan));
  if (!spans.empty()) exports_.spans(spans);
  return {};
}

}  // namespace tracesmith::cluster
