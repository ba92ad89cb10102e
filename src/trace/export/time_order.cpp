#include "trace/export/time_order.hpp"

#include <algorithm>

namespace tracesmith::trace {
namespace {

int64_t firstTs(const Block& block, int column) {
  int64_t low, high;
  return block.zone(column, low, high) ? low : INT64_MAX;
}

}  // namespace

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
  std::stable_sort(blocks_.begin(), blocks_.end(),
                   [&](const Block* a, const Block* b) { return firstTs(*a, ts_column_) < firstTs(*b, ts_column_); });
}

void TimeOrder::push(size_t i) {
  Open& o = open_[i];
  if (o.at < o.entries.size())
    heads_.push({o.entries[o.at].ts, o.entries[o.at].dur, i});
  else
    free_.push_back(i);
}

/// Decodes the next block; false if it cannot be.
bool TimeOrder::openNext() {
  const Block& block = *blocks_[next_block_++];
  if (free_.empty()) {
    free_.push_back(open_.size());
    open_.push_back({std::make_unique<BlockRows>(reader_, table_, selection_, columns_), {}, 0});
  }
  size_t i = free_.back();
  Open& o = open_[i];
  if (!o.rows->load(block)) {
    status_ = o.rows->status();
    return status_.ok();
  }
  free_.pop_back();
  o.entries.clear();
  o.at = 0;
  for (uint32_t r : o.rows->rows()) {
    Row row{o.rows.get(), r};
    int64_t ts = row.slot(ts_column_);
    if (ts == kNull || (keep_ && !keep_(row))) continue;
    int64_t dur = dur_column_ < 0 ? 0 : row.slot(dur_column_);
    o.entries.push_back({ts, std::max<int64_t>(dur, 0), r});
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
         (heads_.empty() || firstTs(*blocks_[next_block_], ts_column_) <= heads_.top().ts))
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
