#include "query/block_cursor.hpp"

#include <algorithm>
#include <cstring>
#include <duckdb/common/types/vector_cache.hpp>
#include <duckdb/storage/table/column_segment.hpp>
#include <utf8proc_wrapper.hpp>
#include <utility>

#include "query/prune.hpp"
#include "trace/encoding.hpp"
#include "trace/layout.hpp"

namespace tracesmith::query {
namespace {

using duckdb::ConstantVector;
using duckdb::DictionaryVector;
using duckdb::FlatVector;
using duckdb::Vector;
using duckdb::VectorType;
using trace::Kind;

constexpr size_t kVector = STANDARD_VECTOR_SIZE;

bool isNames(const SqlColumn& column) { return column.column >= 0 && (column.kind == Kind::Str || column.kind == Kind::Launch); }

/// A byte per row to a bit per row.
void packBits(const uint8_t* bytes, size_t n, std::vector<uint64_t>& bits) {
  bits.assign((n + 63) / 64, 0);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, bytes + i, 8);
    // Each byte is 0 or 1: the product moves them side by side into the top byte.
    bits[i / 64] |= (eight * 0x0102040810204080ull >> 56) << (i % 64);
  }
  for (; i < n; ++i) bits[i / 64] |= static_cast<uint64_t>(bytes[i] & 1) << (i % 64);
}

void setNull(Vector& out) {
  out.SetVectorType(VectorType::CONSTANT_VECTOR);
  ConstantVector::SetNull(out, true);
}

}  // namespace

/// One column of the block.
struct BlockCursor::Slot {
  int column = -1;
  bool loaded = false;
  bool all_null = false;
  bool constant = false;  // one value for all rows, none of them NULL
  trace::ColumnData data;
  std::vector<uint64_t> bits;    // validity as DuckDB wants it; empty: no NULL
  std::vector<uint64_t> gathered_bits;
  // Str and Launch: positions in the dictionary vector; points into `data` where they are the ids themselves.
  const uint32_t* positions = nullptr;
  std::vector<uint32_t> own_positions, gathered;
  std::vector<uint8_t> types;    // Type: repaired, where there are unknown ones
};

/// The dictionary vector of one Str column or one launch field for one stream.
struct BlockCursor::Names {
  const SqlColumn* column = nullptr;
  uint32_t source = UINT32_MAX, stream = 0;
  uint32_t low = 0;       // id of position 0
  uint32_t size = 0;      // positions, NULL among them
  uint32_t null = UINT32_MAX;  // position of NULL, or none
  bool known_size = false;
  std::unique_ptr<Vector> vector;
  std::vector<duckdb::validity_t> validity;
  std::string id;
};

struct BlockCursor::FilterState {
  const SqlColumn* column;
  const duckdb::TableFilter* filter;
  std::unique_ptr<duckdb::TableFilterState> state;
  // Names, types and the trace: which positions of the dictionary pass.
  std::vector<uint8_t> passes;
  uint32_t source = UINT32_MAX, stream = 0;
};

BlockCursor::BlockCursor(const ScanPlan& plan, duckdb::ClientContext& context) : plan_(plan) {
  slots_.resize(plan.table->columns.size());
  for (const ScanFilter& filter : plan.filters) {
    filters_.push_back(std::make_unique<FilterState>());
    filters_.back()->column = filter.column;
    filters_.back()->filter = filter.filter;
    filters_.back()->state = duckdb::TableFilterState::Initialize(context, *filter.filter);
  }
}

BlockCursor::~BlockCursor() = default;

BlockCursor::Slot& BlockCursor::slot(int column) {
  std::unique_ptr<Slot>& slot = slots_[static_cast<size_t>(column)];
  if (!slot) {
    slot = std::make_unique<Slot>();
    slot->column = column;
  }
  return *slot;
}

bool BlockCursor::load(const TraceSet::BlockRef& ref) {
  ref_ = ref;
  decoded_ = false;
  position_ = 0;
  count_ = ref.block->rows;
  selected_ = false;
  if (decoder_source_ != ref.source) {
    decoder_ = std::make_unique<trace::BlockDecoder>(*plan_.traces->sources()[ref.source].reader);
    decoder_source_ = ref.source;
  }
  for (auto& slot : slots_)
    if (slot) slot->loaded = false;
  for (auto& filter : filters_)
    if (!apply(*filter) || count_ == 0) return false;
  // Everything is decoded before the first row is given away: a damaged block is left out as a whole.
  for (const SqlColumn* column : plan_.output)
    if (column && column->column >= 0 && !decode(slot(column->column))) return false;
  return true;
}

bool BlockCursor::decode(Slot& s) {
  if (s.loaded) return true;
  const trace::Block& block = *ref_.block;
  const Kind kind = plan_.table->columns[static_cast<size_t>(s.column)].kind;
  s.bits.clear();
  s.positions = nullptr;
  s.constant = false;
  if (kind == Kind::Sum) {
    Slot &ts = slot(s.column - 2), &dur = slot(s.column - 1);
    if (!decode(ts) || !decode(dur)) return false;
    s.loaded = true;
    s.all_null = ts.all_null || dur.all_null;
    if (s.all_null) return true;
    if (!ts.bits.empty() || !dur.bits.empty()) {
      s.bits.assign((block.rows + 63) / 64, ~0ull);
      for (size_t i = 0; i < s.bits.size(); ++i) {
        if (!ts.bits.empty()) s.bits[i] &= ts.bits[i];
        if (!dur.bits.empty()) s.bits[i] &= dur.bits[i];
      }
    }
    return true;
  }
  const trace::ColumnEntry* entry = block.find(s.column);
  s.all_null = !entry;
  s.loaded = true;
  if (!entry) return true;
  decoded_ = true;
  s.constant = entry->encoding == trace::Encoding::kConstant && entry->values == block.rows;
  s.loaded = decoder_->decode(block, s.column, s.data, s.constant).ok();
  if (!s.loaded) return false;
  if (s.data.hasNulls()) packBits(s.data.validity(), block.rows, s.bits);
  if (kind == Kind::Type) {
    const uint8_t* types = s.data.data<uint8_t>();
    const size_t n = s.constant ? 1 : block.rows;
    uint8_t high = 0;
    for (size_t i = 0; i < n; ++i) high = std::max(high, types[i]);
    s.types.clear();
    if (high >= trace::kEventTypes) {
      s.types.assign(types, types + n);
      for (uint8_t& t : s.types) t = std::min<uint8_t>(t, trace::kEventTypes - 1);
    }
  }
  return true;
}

BlockCursor::Names& BlockCursor::names(const SqlColumn& column) {
  auto index = static_cast<size_t>(&column - plan_.traces->columns(*plan_.table).data());
  if (names_.size() <= index) names_.resize(index + 1);
  std::unique_ptr<Names>& out = names_[index];
  const uint32_t stream = ref_.block->stream;
  if (out && out->source == ref_.source && out->stream == stream) return *out;
  out = std::make_unique<Names>();
  out->column = &column;
  out->source = ref_.source;
  out->stream = stream;
  TraceSet& traces = *plan_.traces;
  const bool launch = column.kind == Kind::Launch;
  const Dictionary& dictionary = launch ? traces.launchDictionary(ref_.source, stream) : traces.dictionary(ref_.source, stream);
  IdRange range = traces.idRange(*plan_.table, column.column, ref_.source, stream);
  out->low = range.low;
  // Whole, if it is small enough for DuckDB's shortcuts: then ids need no arithmetic.
  if (range.high < 16384) out->low = 0;
  out->size = range.high - out->low + 1;
  const size_t ids = out->size;
  if (range.nulls || launch) out->null = out->size++;
  // A vector of a dictionary's size lets DuckDB hash each string once; it does not pay when there are fewer rows.
  out->known_size = out->size <= plan_.rows;
  out->id = "sbt" + std::to_string(plan_.id) + "." + std::to_string(ref_.source) + "." + std::to_string(stream) + "." + column.name;
  auto* data = launch ? reinterpret_cast<const void*>(dictionary.launch[column.launch_field].data() + out->low)
                      : reinterpret_cast<const void*>(dictionary.strings.data() + out->low);
  out->vector = std::make_unique<Vector>(column.type, static_cast<duckdb::data_ptr_t>(const_cast<void*>(data)));
  if (out->null == UINT32_MAX) return *out;
  out->validity.assign((out->size + 63) / 64, ~0ull);
  auto clear = [&](size_t position) { out->validity[position / 64] &= ~(1ull << (position % 64)); };
  clear(out->null);
  if (launch) {
    for (size_t i = 0; i < ids; ++i)
      if (dictionary.launch[column.launch_field][out->low + i] < 0) clear(i);
  } else {
    for (uint32_t id : dictionary.missing)
      if (id >= out->low && id - out->low < ids) clear(id - out->low);
  }
  FlatVector::Validity(*out->vector).Initialize(out->validity.data(), out->size);
  return *out;
}

template <typename Keep>
void BlockCursor::keepRows(Keep keep) {
  size_t kept = 0;
  if (!selected_) {
    rows_.resize(ref_.block->rows);
    for (uint32_t r = 0; r < ref_.block->rows; ++r) {
      rows_[kept] = r;
      kept += keep(r);
    }
  } else {
    for (size_t i = 0; i < count_; ++i) {
      const uint32_t r = rows_[i];
      rows_[kept] = r;
      kept += keep(r);
    }
  }
  selected_ = selected_ || kept < count_;
  count_ = kept;
}

/// Marks in `passes` which of the first n values pass.
void BlockCursor::ask(FilterState& state, Vector& values, size_t n, uint8_t* passes) {
  duckdb::UnifiedVectorFormat format;
  values.ToUnifiedFormat(n, format);
  duckdb::SelectionVector selection;
  duckdb::idx_t passed = n;
  duckdb::ColumnSegment::FilterSelection(selection, values, format, *state.filter, *state.state, n, passed);
  std::fill(passes, passes + n, 0);
  for (size_t i = 0; i < passed; ++i) passes[selection.get_index(i)] = 1;
}

bool BlockCursor::apply(FilterState& state) {
  const SqlColumn& column = *state.column;
  // Optional ones (of joins, of ORDER BY … LIMIT) need not hold for every row: only zones are asked.
  const bool optional = state.filter->filter_type == duckdb::TableFilterType::OPTIONAL_FILTER;
  if (column.column < 0 || isNames(column)) return optional || applyToNames(state);
  if (column.kind == Kind::Type) return optional || applyToTypes(state);
  if (column.kind != Kind::Text) {
    duckdb::BaseStatistics stats = zoneStatistics(column, {&ref_, 1});
    switch (state.filter->CheckStatistics(stats)) {
      case duckdb::FilterPropagateResult::FILTER_ALWAYS_TRUE: return true;
      case duckdb::FilterPropagateResult::FILTER_ALWAYS_FALSE:
      case duckdb::FilterPropagateResult::FILTER_FALSE_OR_NULL: count_ = 0; return true;
      default: break;
    }
  }
  return optional || applyToValues(state);
}

/// The filter is asked once for every name; rows are looked up.
bool BlockCursor::applyToNames(FilterState& state) {
  const SqlColumn& column = *state.column;
  const bool fresh = state.passes.empty() || state.source != ref_.source || state.stream != ref_.block->stream;
  state.source = ref_.source;
  state.stream = ref_.block->stream;
  if (column.column < 0) {
    state.passes.resize(1);
    Vector name{duckdb::Value(plan_.traces->sources()[ref_.source].name)};
    if (fresh) ask(state, name, 1, state.passes.data());
    if (!state.passes[0]) count_ = 0;
    return true;
  }
  Names& names = this->names(column);
  if (fresh) {
    state.passes.resize(names.size);
    for (size_t at = 0; at < names.size; at += kVector) {
      const size_t n = std::min<size_t>(kVector, names.size - at);
      Vector part(*names.vector, at, at + n);
      ask(state, part, n, state.passes.data() + at);
    }
  }
  const uint8_t* passes = state.passes.data();
  const bool null_passes = names.null != UINT32_MAX && passes[names.null];
  const trace::ColumnEntry* entry = ref_.block->find(column.column);
  bool any = null_passes;
  if (entry) {
    int64_t first = std::max<int64_t>(entry->zone_low - names.low, 0), last = entry->zone_high - names.low;
    for (int64_t p = first; !any && p <= last && p < names.size; ++p) any = passes[p];
  }
  if (!any || !entry) {
    if (!any) count_ = 0;
    return true;
  }
  Slot& s = slot(column.column);
  if (!decode(s)) return false;
  preparePositions(s, names);
  if (s.constant) {
    if (!passes[s.positions[0]]) count_ = 0;
    return true;
  }
  keepRows([passes, at = s.positions](uint32_t r) { return passes[at[r]]; });
  return true;
}

/// The same for event types; the zone is the set of them, and often enough.
bool BlockCursor::applyToTypes(FilterState& state) {
  constexpr size_t kNullType = trace::kEventTypes;
  if (state.passes.empty()) {
    Vector types(state.column->type, kNullType + 1);
    for (size_t t = 0; t < kNullType; ++t) FlatVector::GetData<uint8_t>(types)[t] = static_cast<uint8_t>(t);
    FlatVector::SetNull(types, kNullType, true);
    state.passes.resize(kNullType + 1);
    ask(state, types, kNullType + 1, state.passes.data());
  }
  const uint8_t* passes = state.passes.data();
  const trace::ColumnEntry* entry = ref_.block->find(state.column->column);
  uint64_t passing = 0;
  for (size_t t = 0; t < 64; ++t) passing |= static_cast<uint64_t>(passes[std::min(t, kNullType - 1)]) << t;
  const uint64_t types = entry ? ref_.block->types() : 0;
  const bool nulls = !entry || entry->values < ref_.block->rows;
  const bool any = (types & passing) || (nulls && passes[kNullType]);
  const bool all = !(types & ~passing) && (!nulls || passes[kNullType]);
  if (!any) count_ = 0;
  if (!any || all) return true;
  Slot& s = slot(state.column->column);
  if (!decode(s)) return false;
  const uint8_t* type = s.types.empty() ? s.data.data<uint8_t>() : s.types.data();
  if (s.constant) {
    if (!passes[type[0]]) count_ = 0;
  } else if (s.bits.empty()) {
    keepRows([passes, type](uint32_t r) { return passes[type[r]]; });
  } else {
    keepRows([&](uint32_t r) { return passes[s.data.valid(r) ? type[r] : kNullType]; });
  }
  return true;
}

bool BlockCursor::applyToValues(FilterState& state) {
  const SqlColumn& column = *state.column;
  if (!decode(slot(column.column))) return false;
  const size_t rows = ref_.block->rows;
  state.passes.resize(rows);
  const bool selected = std::exchange(selected_, false);  // fill() is to give all rows
  duckdb::VectorCache cache(duckdb::Allocator::DefaultAllocator(), column.type);
  Vector values(cache);
  for (position_ = 0; position_ < rows; position_ += kVector) {
    const size_t n = std::min(kVector, rows - position_);
    values.ResetFromCache(cache);
    fill(column, values, n);
    ask(state, values, n, state.passes.data() + position_);
  }
  position_ = 0;
  selected_ = selected;
  keepRows([passes = state.passes.data()](uint32_t r) { return passes[r]; });
  return true;
}

void BlockCursor::preparePositions(Slot& s, const Names& names) {
  if (s.positions) return;
  const uint32_t* ids = s.data.data<uint32_t>();
  const bool constant = s.constant;
  const size_t n = constant ? 1 : ref_.block->rows;
  const uint32_t last = names.size - (names.null == UINT32_MAX ? 1 : 2);
  if (names.low == 0 && s.bits.empty() && trace::highest(ids, n) <= last) {
    s.positions = ids;
    return;
  }
  // A file's zones may lie: an id outside of them has no string here.
  const uint32_t null = names.null == UINT32_MAX ? 0 : names.null;
  s.own_positions.resize(n);
  for (size_t i = 0; i < n; ++i) {
    uint32_t position = ids[i] - names.low;
    s.own_positions[i] = position <= last && s.data.valid(i) ? position : null;
  }
  s.positions = s.own_positions.data();
}

void BlockCursor::next(duckdb::DataChunk& chunk) {
  const size_t n = std::min(kVector, count_ - position_);
  chunk.SetCardinality(n);
  if (n == 0) return;
  for (size_t i = 0; i < plan_.output.size(); ++i) {
    if (plan_.output[i])
      fill(*plan_.output[i], chunk.data[i], n);
    else
      setNull(chunk.data[i]);
  }
  position_ += n;
}

void BlockCursor::fill(const SqlColumn& column, Vector& out, size_t count) {
  if (column.column < 0) {
    out.SetVectorType(VectorType::CONSTANT_VECTOR);
    const std::string& name = plan_.traces->sources()[ref_.source].name;
    ConstantVector::GetData<duckdb::string_t>(out)[0] = duckdb::string_t(name.data(), static_cast<uint32_t>(name.size()));
    return;
  }
  Slot& s = slot(column.column);
  if (s.all_null) return setNull(out);
  switch (column.kind) {
    case Kind::Str:
    case Kind::Launch: return fillNames(column, s, out, count);
    case Kind::Text: return fillText(s, out, count);
    case Kind::Type: return fillFlat(s.types.empty() ? s.data.data<uint8_t>() : s.types.data(), s, out, count);
    case Kind::Int32: return fillFlat(s.data.data<int32_t>(), s, out, count);
    case Kind::Sum: return fillSum(s, out, count);
    case Kind::Real: return fillFlat(s.data.data<double>(), s, out, count);
    default: return fillFlat(s.data.data<int64_t>(), s, out, count);
  }
}

void BlockCursor::setValidity(Slot& s, Vector& out, size_t count) {
  if (s.bits.empty()) return;
  if (!selected_) {  // position_ is a multiple of 64
    FlatVector::Validity(out).Initialize(s.bits.data() + position_ / 64, count);
    return;
  }
  s.gathered_bits.assign(kVector / 64, 0);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t r = rows_[position_ + i];
    s.gathered_bits[i / 64] |= (s.bits[r / 64] >> (r % 64) & 1) << (i % 64);
  }
  FlatVector::Validity(out).Initialize(s.gathered_bits.data(), count);
}

template <typename T>
void BlockCursor::fillFlat(const T* values, Slot& s, Vector& out, size_t count) {
  if (s.constant) {
    out.SetVectorType(VectorType::CONSTANT_VECTOR);
    ConstantVector::GetData<T>(out)[0] = values[0];
    return;
  }
  if (!selected_) {
    // In place: DuckDB is done with a chunk before it asks for the next one.
    FlatVector::SetData(out, reinterpret_cast<duckdb::data_ptr_t>(const_cast<T*>(values + position_)));
  } else {
    T* to = FlatVector::GetData<T>(out);
    const uint32_t* rows = rows_.data() + position_;
    for (size_t i = 0; i < count; ++i) to[i] = values[rows[i]];
  }
  setValidity(s, out, count);
}

void BlockCursor::fillSum(Slot& s, Vector& out, size_t count) {
  Slot &ts = slot(s.column - 2), &dur = slot(s.column - 1);
  const int64_t *a = ts.data.data<int64_t>(), *b = dur.data.data<int64_t>();
  auto* to = FlatVector::GetData<int64_t>(out);
  auto add = [](int64_t x, int64_t y) { return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y)); };
  if (!selected_ && !ts.constant && !dur.constant) {
    a += position_;
    b += position_;
    for (size_t i = 0; i < count; ++i) to[i] = add(a[i], b[i]);
  } else {
    for (size_t i = 0; i < count; ++i) {
      const size_t row = selected_ ? rows_[position_ + i] : position_ + i;
      to[i] = add(a[ts.constant ? 0 : row], b[dur.constant ? 0 : row]);
    }
  }
  setValidity(s, out, count);
}

void BlockCursor::fillNames(const SqlColumn& column, Slot& s, Vector& out, size_t count) {
  Names& names = this->names(column);
  preparePositions(s, names);
  const bool constant = s.constant;
  if (constant) {
    const uint32_t position = s.positions[0];
    if (!FlatVector::Validity(*names.vector).RowIsValid(position)) return setNull(out);
    out.SetVectorType(VectorType::CONSTANT_VECTOR);
    if (column.kind == Kind::Str)
      ConstantVector::GetData<duckdb::string_t>(out)[0] = FlatVector::GetData<duckdb::string_t>(*names.vector)[position];
    else
      ConstantVector::GetData<int32_t>(out)[0] = FlatVector::GetData<int32_t>(*names.vector)[position];
    return;
  }
  const uint32_t* positions = s.positions + position_;
  if (selected_) {
    s.gathered.resize(kVector);
    for (size_t i = 0; i < count; ++i) s.gathered[i] = s.positions[rows_[position_ + i]];
    positions = s.gathered.data();
  }
  duckdb::SelectionVector selection(const_cast<duckdb::sel_t*>(positions));
  if (names.known_size) {
    out.Dictionary(*names.vector, names.size, selection, count);
    DictionaryVector::SetDictionaryId(out, names.id);
  } else {
    out.Slice(*names.vector, selection, count);
  }
}

void BlockCursor::fillText(Slot& s, Vector& out, size_t count) {
  auto* to = FlatVector::GetData<duckdb::string_t>(out);
  for (size_t i = 0; i < count; ++i) {
    std::string_view text = s.data.textAt(selected_ ? rows_[position_ + i] : position_ + i);
    to[i] = duckdb::string_t(text.data(), static_cast<uint32_t>(text.size()));
    if (!duckdb::Utf8Proc::IsValid(text.data(), text.size())) {
      std::string fixed(text);
      duckdb::Utf8Proc::MakeValid(fixed.data(), fixed.size());
      to[i] = duckdb::StringVector::AddString(out, fixed);
    }
  }
  setValidity(s, out, count);
}

}  // namespace tracesmith::query
