#include "query/block_bringer.hpp"

#include <algorithm>

#include "query/prune.hpp"

namespace tracesmith::query {
namespace {

// What is asked for at once: little at first, for who soon has enough, then more, because each question waits for its
// answer.
constexpr uint64_t kFirstBytes = 1u << 20, kMostBytes = 64u << 20;
constexpr uint64_t kGrowth = 4;

void add(std::vector<int>& columns, const SqlColumn* column) {
  if (column && column->column >= 0 && std::find(columns.begin(), columns.end(), column->column) == columns.end())
    columns.push_back(column->column);
}

}  // namespace

BlockBringer::BlockBringer(const ScanPlan& plan, const std::vector<TraceSet::BlockRef>& blocks)
    : plan_(plan), blocks_(blocks), states_(blocks.size(), State::kUnknown), next_bytes_(kFirstBytes) {
  // Of optional filters only zones are asked.
  for (const ScanFilter& f : plan.filters)
    if (f.filter->filter_type != duckdb::TableFilterType::OPTIONAL_FILTER) add(filtered_, f.column);
  for (const SqlColumn* c : plan.output) add(others_, c);
  std::erase_if(others_, [&](int c) { return std::find(filtered_.begin(), filtered_.end(), c) != filtered_.end(); });
}

/// Filters of ORDER BY … LIMIT get narrower while the query runs: a block whose turn has not come is asked again.
bool BlockBringer::excluded(const TraceSet::BlockRef& ref) const {
  return std::any_of(plan_.filters.begin(), plan_.filters.end(),
                     [&](const ScanFilter& f) { return zoneExcludes(*f.column, *f.filter, ref); });
}

bool BlockBringer::bring(size_t block, duckdb::ClientContext& context) {
  std::lock_guard lock(mutex_);
  if (states_[block] == State::kHere) return true;
  if (states_[block] == State::kUnwanted || excluded(blocks_[block])) return false;
  std::vector<size_t> some = {block};
  std::vector<ByteRange> ranges;
  uint64_t bytes = 0;
  auto addColumns = [&](size_t b) {
    bytes += TraceSet::addRanges(*blocks_[b].block, filtered_, ranges);
    if (filtered_.empty() || others_.empty()) bytes += TraceSet::addRanges(*blocks_[b].block, others_, ranges);
  };
  addColumns(block);
  for (ahead_ = std::max(ahead_, block + 1); ahead_ < blocks_.size() && bytes < next_bytes_; ++ahead_) {
    if (states_[ahead_] != State::kUnknown || excluded(blocks_[ahead_])) continue;
    addColumns(ahead_);
    some.push_back(ahead_);
  }
  plan_.traces->need(ranges);
  ranges.clear();
  if (!filtered_.empty() && !others_.empty()) {
    // The other columns of those blocks alone in which a row has passed.
    if (!filter_) filter_ = std::make_unique<BlockCursor>(plan_, context);
    for (const size_t b : some) {
      states_[b] = filter_->matches(blocks_[b]) ? State::kHere : State::kUnwanted;
      if (states_[b] == State::kHere) TraceSet::addRanges(*blocks_[b].block, others_, ranges);
    }
    plan_.traces->need(ranges);
  } else {
    for (const size_t b : some) states_[b] = State::kHere;
  }
  next_bytes_ = std::min(kGrowth * next_bytes_, kMostBytes);
  return states_[block] == State::kHere;
}

}  // namespace tracesmith::query
