#include "query/block_cursor.hpp"

#include <algorithm>

namespace tracesmith::query {

BlockCursor::BlockCursor(const ScanPlan& plan, duckdb::ClientContext& context)
    : plan_(plan), columns_(plan), names_(plan), filler_(plan, columns_, names_) {
  for (const ScanFilter& filter : plan.filters) filters_.emplace_back(plan, filter, context);
}

bool BlockCursor::matches(const TraceSet::BlockRef& ref) {
  columns_.start(ref);
  rows_.reset(ref.block->rows);
  position_ = 0;
  return std::all_of(filters_.begin(), filters_.end(), [&](BlockFilter& filter) {
    return filter.apply(columns_, names_, filler_, rows_) && rows_.count > 0;
  });
}

bool BlockCursor::load(const TraceSet::BlockRef& ref) {
  if (!matches(ref)) return false;
  // Everything is decoded before the first row is given away: a damaged block is left out as a whole.
  for (const SqlColumn* column : plan_.output)
    if (column && column->column >= 0 && !columns_.get(column->column)) return false;
  return true;
}

void BlockCursor::next(duckdb::DataChunk& chunk) {
  const size_t n = std::min<size_t>(STANDARD_VECTOR_SIZE, rows_.count - position_);
  chunk.SetCardinality(n);
  if (n == 0) return;
  for (size_t i = 0; i < plan_.output.size(); ++i) {
    duckdb::Vector& out = chunk.data[i];
    if (plan_.output[i]) {
      filler_.fill(*plan_.output[i], rows_, position_, n, out);
    } else {
      out.SetVectorType(duckdb::VectorType::CONSTANT_VECTOR);
      duckdb::ConstantVector::SetNull(out, true);
    }
  }
  position_ += n;
}

}  // namespace tracesmith::query
