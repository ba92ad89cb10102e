#include "query/block_filter.hpp"

#include <algorithm>
#include <duckdb/common/types/vector_cache.hpp>
#include <duckdb/storage/table/column_segment.hpp>

#include "query/prune.hpp"
#include "trace/layout.hpp"

namespace tracesmith::query {
namespace {

using duckdb::FlatVector;
using duckdb::Vector;
using trace::Kind;

constexpr size_t kVector = STANDARD_VECTOR_SIZE;

}  // namespace

BlockFilter::BlockFilter(const ScanPlan& plan, const ScanFilter& filter, duckdb::ClientContext& context)
    : plan_(plan),
      column_(*filter.column),
      filter_(*filter.filter),
      state_(duckdb::TableFilterState::Initialize(context, filter_)) {}

/// Marks which of the first n values pass.
void BlockFilter::ask(Vector& values, size_t n, uint8_t* passes) {
  duckdb::UnifiedVectorFormat format;
  values.ToUnifiedFormat(n, format);
  duckdb::SelectionVector selection;
  duckdb::idx_t passed = n;
  duckdb::ColumnSegment::FilterSelection(selection, values, format, filter_, *state_, n, passed);
  std::fill(passes, passes + n, 0);
  for (size_t i = 0; i < passed; ++i) passes[selection.get_index(i)] = 1;
}

bool BlockFilter::apply(BlockColumns& columns, NameVectors& names, VectorFiller& filler, RowSet& rows) {
  // Optional ones (of joins, of ORDER BY … LIMIT) need not hold for every row: only zones are asked.
  const bool optional = filter_.filter_type == duckdb::TableFilterType::OPTIONAL_FILTER;
  if (column_.column < 0) return optional || applyToTrace(columns.ref(), rows);
  if (isNames(column_)) return optional || applyToNames(columns, names, rows);
  if (column_.kind == Kind::Type) return optional || applyToTypes(columns, rows);
  if (column_.kind != Kind::Text) {
    duckdb::BaseStatistics stats = zoneStatistics(column_, {&columns.ref(), 1});
    switch (filter_.CheckStatistics(stats)) {
      case duckdb::FilterPropagateResult::FILTER_ALWAYS_TRUE:
        return true;
      case duckdb::FilterPropagateResult::FILTER_ALWAYS_FALSE:
      case duckdb::FilterPropagateResult::FILTER_FALSE_OR_NULL:
        rows.clear();
        return true;
      default:
        break;
    }
  }
  return optional || applyToValues(columns, filler, rows);
}

bool BlockFilter::applyToTrace(const TraceSet::BlockRef& ref, RowSet& rows) {
  std::vector<uint8_t>& passes = names_pass_[{ref.source, 0}];
  if (passes.empty()) {
    passes.resize(1);
    Vector name{duckdb::Value(plan_.traces->sources()[ref.source].name)};
    ask(name, 1, passes.data());
  }
  if (!passes[0]) rows.clear();
  return true;
}

/// The filter is asked once for every name; rows are looked up.
bool BlockFilter::applyToNames(BlockColumns& columns, NameVectors& all_names, RowSet& rows) {
  const TraceSet::BlockRef& ref = columns.ref();
  const NameVector& names = all_names.get(column_, ref);
  std::vector<uint8_t>& known = names_pass_[{ref.source, ref.block->stream}];
  if (known.empty()) {
    known.resize(names.size);
    for (size_t at = 0; at < names.size; at += kVector) {
      const size_t n = std::min<size_t>(kVector, names.size - at);
      Vector part(*names.vector, at, at + n);
      ask(part, n, known.data() + at);
    }
  }
  const uint8_t* passes = known.data();
  const trace::ColumnEntry* entry = ref.block->find(column_.column);
  bool any = names.null != NameVector::kNone && passes[names.null];
  if (entry) {
    int64_t first = std::max<int64_t>(entry->zone_low - names.low, 0), last = entry->zone_high - names.low;
    for (int64_t p = first; !any && p <= last && p < names.size; ++p) any = passes[p];
  }
  if (!any) rows.clear();
  if (!any || !entry) return true;
  DecodedColumn* c = columns.get(column_.column);
  if (!c) return false;
  NameVectors::setPositions(*c, names, ref.block->rows);
  if (c->constant) {
    if (!passes[c->positions[0]]) rows.clear();
    return true;
  }
  rows.filter([passes, at = c->positions](uint32_t row) { return passes[at[row]]; });
  return true;
}

/// The same for event types; the zone is the set of them, and often enough.
bool BlockFilter::applyToTypes(BlockColumns& columns, RowSet& rows) {
  constexpr size_t kNullType = trace::kEventTypes;
  if (passes_.empty()) {
    Vector types(column_.type, kNullType + 1);
    for (size_t t = 0; t < kNullType; ++t) FlatVector::GetData<uint8_t>(types)[t] = static_cast<uint8_t>(t);
    FlatVector::SetNull(types, kNullType, true);
    passes_.resize(kNullType + 1);
    ask(types, kNullType + 1, passes_.data());
  }
  const uint8_t* passes = passes_.data();
  const trace::Block& block = columns.block();
  const trace::ColumnEntry* entry = block.find(column_.column);
  uint64_t passing = 0;
  for (size_t t = 0; t < 64; ++t) passing |= static_cast<uint64_t>(passes[std::min(t, kNullType - 1)]) << t;
  const uint64_t types = entry ? block.types() : 0;
  const bool nulls = !entry || entry->values < block.rows;
  const bool any = (types & passing) || (nulls && passes[kNullType]);
  const bool all = !(types & ~passing) && (!nulls || passes[kNullType]);
  if (!any) rows.clear();
  if (!any || all) return true;
  DecodedColumn* c = columns.get(column_.column);
  if (!c) return false;
  const uint8_t* type = c->typeData();
  if (c->constant) {
    if (!passes[type[0]]) rows.clear();
  } else if (c->bits.empty()) {
    rows.filter([passes, type](uint32_t row) { return passes[type[row]]; });
  } else {
    rows.filter([&](uint32_t row) { return passes[c->valid(row) ? type[row] : kNullType]; });
  }
  return true;
}

bool BlockFilter::applyToValues(BlockColumns& columns, VectorFiller& filler, RowSet& rows) {
  if (!columns.get(column_.column)) return false;
  RowSet all;
  all.reset(columns.block().rows);
  passes_.resize(all.count);
  duckdb::VectorCache cache(duckdb::Allocator::DefaultAllocator(), column_.type);
  Vector values(cache);
  for (size_t at = 0; at < all.count; at += kVector) {
    const size_t n = std::min(kVector, all.count - at);
    values.ResetFromCache(cache);
    filler.fill(column_, all, at, n, values);
    ask(values, n, passes_.data() + at);
  }
  rows.filter([passes = passes_.data()](uint32_t row) { return passes[row]; });
  return true;
}

}  // namespace tracesmith::query
