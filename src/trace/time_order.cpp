#include "trace/time_order.hpp"

#include <algorithm>

namespace tracesmith::trace {
namespace {

int64_t firstTs(const Block& block, const CommonClock* clock) {
  int64_t low, high;
  return blockTimes(block, clock, low, high) ? low : INT64_MAX;
}

}  // namespace

CopiedRows::CopiedRows(const BlockRows& from, const std::vector<uint32_t>& rows) {
  const TableInfo& table = from.table();
  place_.assign(table.columns.size(), 0);
  auto kind = [&](int c) { return table.columns[static_cast<size_t>(c)].kind; };
  auto isText = [&](int c) { return kind(c) == Kind::Str || kind(c) == Kind::Text || kind(c) == Kind::Launch; };
  size_t heap = 0;
  for (int c : from.columns()) {
    place_[static_cast<size_t>(c)] = isText(c) ? text_width_++ : width_++;
    if (kind(c) == Kind::Text)
      for (uint32_t r : rows) heap += from.text(c, r).size();
  }
  heap_.reserve(heap);  // never grows from here: views into it stay valid
  slots_.resize(rows.size() * width_);
  texts_.resize(rows.size() * text_width_);
  for (int c : from.columns()) {
    const size_t place = place_[static_cast<size_t>(c)];
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!isText(c)) {
        slots_[i * width_ + place] = from.slot(c, rows[i]);
        continue;
      }
      std::string_view text = from.text(c, rows[i]);
      if (kind(c) == Kind::Text && !text.empty()) {
        heap_ += text;
        text = std::string_view(heap_).substr(heap_.size() - text.size());
      } else if (kind(c) == Kind::Text && text.data()) {
        text = "";  // empty, but not NULL
      }
      texts_[i * text_width_ + place] = text;
    }
  }
}

TimeOrder::TimeOrder(const Reader& reader, const TableInfo& table, Selection selection, std::vector<int> columns,
                     std::vector<const Block*> blocks, std::function<bool(const Row&)> keep)
    : reader_(reader),
      table_(table),
      selection_(std::move(selection)),
      columns_(std::move(columns)),
      blocks_(std::move(blocks)),
      keep_(std::move(keep)),
      ts_column_(table.find("ts")),
      dur_column_(table.find("dur")) {
  std::erase_if(blocks_, [&](const Block* b) { return !selection_.mayMatch(*b); });
  std::stable_sort(blocks_.begin(), blocks_.end(), [&](const Block* a, const Block* b) {
    return firstTs(*a, selection_.clock) < firstTs(*b, selection_.clock);
  });
}

void TimeOrder::push(size_t i) {
  Open& o = open_[i];
  if (o.at < o.entries.size()) {
    heads_.push({o.entries[o.at].ts, o.entries[o.at].dur, i});
    return;
  }
  if (!o.copied) spare_.emplace_back(static_cast<BlockRows*>(o.rows.release()));
  o.rows.reset();
  free_.push_back(i);
}

std::unique_ptr<BlockRows> TimeOrder::spare() {
  if (spare_.empty()) return std::make_unique<BlockRows>(reader_, table_, selection_, columns_);
  std::unique_ptr<BlockRows> out = std::move(spare_.back());
  spare_.pop_back();
  return out;
}

/// Decodes the next block; false on failure.
bool TimeOrder::openNext() {
  const Block& block = *blocks_[next_block_++];
  std::unique_ptr<BlockRows> rows = spare();
  if (!rows->load(block)) {
    status_ = rows->status();
    spare_.push_back(std::move(rows));
    return status_.ok();
  }
  if (free_.empty()) {
    free_.push_back(open_.size());
    open_.emplace_back();
  }
  const size_t i = free_.back();
  free_.pop_back();
  Open& o = open_[i];
  o.entries.clear();
  o.at = 0;
  std::vector<uint32_t> kept;
  for (uint32_t r : rows->rows()) {
    Row row{rows.get(), r};
    int64_t ts = row.slot(ts_column_);
    if (ts == kNull || (keep_ && !keep_(row))) continue;
    int64_t dur = dur_column_ < 0 ? 0 : row.slot(dur_column_);
    o.entries.push_back({ts, std::max<int64_t>(dur, 0), r});
    kept.push_back(r);
  }
  // A block that mixes ranks has few rows of each: a copy of those is much smaller than the block.
  o.copied = kept.size() < block.rows / 2;
  if (o.copied) {
    o.rows = std::make_unique<CopiedRows>(*rows, kept);
    spare_.push_back(std::move(rows));
    for (size_t k = 0; k < kept.size(); ++k) o.entries[k].row = static_cast<uint32_t>(k);
  } else {
    o.rows = std::move(rows);
  }
  std::stable_sort(o.entries.begin(), o.entries.end(),
                   [](const Entry& a, const Entry& b) { return a.ts != b.ts ? a.ts < b.ts : a.dur > b.dur; });
  push(i);
  return true;
}

bool TimeOrder::next() {
  if (current_) {
    ++open_[*current_].at;
    push(*current_);
    current_.reset();
  }
  // Every block that may begin before the first row known so far has to be looked at.
  while (next_block_ < blocks_.size() &&
         (heads_.empty() || firstTs(*blocks_[next_block_], selection_.clock) <= heads_.top().ts))
    if (!openNext()) return false;
  if (heads_.empty()) return false;
  size_t i = heads_.top().open;
  heads_.pop();
  const Entry& e = open_[i].entries[open_[i].at];
  row_ = {open_[i].rows.get(), e.row};
  ts_ = e.ts;
  dur_ = e.dur;
  current_ = i;
  return true;
}

}  // namespace tracesmith::trace
