#include "query/name_vectors.hpp"

#include "trace/encoding.hpp"

namespace tracesmith::query {
namespace {

using duckdb::FlatVector;
using trace::Kind;

// DuckDB groups by dictionary position, and evaluates functions once for each entry, up to this many (20,000 in its
// source).
constexpr uint32_t kDuckDbDictionary = 20000;

}  // namespace

bool isNames(const SqlColumn& column) {
  return column.column >= 0 && (column.kind == Kind::Str || column.kind == Kind::Launch);
}

NameVector& NameVectors::get(const SqlColumn& column, const TraceSet::BlockRef& ref) {
  OfColumn& of = columns_[static_cast<size_t>(&column - plan_.traces->columns(*plan_.table).data())];
  const std::pair key(ref.source, ref.block->stream);
  if (of.last && of.last_key == key) return *of.last;
  std::unique_ptr<NameVector>& names = of.streams[key];
  if (!names) names = make(column, ref);
  of.last_key = key;
  of.last = names.get();
  return *names;
}

std::unique_ptr<NameVector> NameVectors::make(const SqlColumn& column, const TraceSet::BlockRef& ref) const {
  const uint32_t stream = ref.block->stream;
  const bool launch = column.kind == Kind::Launch;
  TraceSet& traces = *plan_.traces;
  const Dictionary& dictionary =
      launch ? traces.launchDictionary(ref.source, stream) : traces.dictionary(ref.source, stream);
  const IdRange range = traces.idRange(*plan_.table, column.column, ref.source, stream);
  auto out = std::make_unique<NameVector>();
  // From id 0 on where that is small enough for DuckDB's shortcuts: then positions are ids, and need not be computed.
  out->low = range.high + 2 < kDuckDbDictionary ? 0 : range.low;
  out->size = range.high - out->low + 1;
  const uint32_t ids = out->size;
  if (range.nulls || launch) out->null = out->size++;
  // Hashing every name once does not pay when there are fewer rows than names.
  out->known_size = out->size <= plan_.rows;
  out->id = "sbt" + std::to_string(plan_.id) + "." + std::to_string(ref.source) + "." + std::to_string(stream) + "." +
            column.name;
  const void* data = launch ? static_cast<const void*>(dictionary.launch[column.launch_field].data() + out->low)
                            : static_cast<const void*>(dictionary.strings.data() + out->low);
  out->vector = std::make_unique<duckdb::Vector>(column.type, static_cast<duckdb::data_ptr_t>(const_cast<void*>(data)));
  if (out->null == NameVector::kNone) return out;
  out->validity.assign((out->size + 63) / 64, ~0ull);
  auto clear = [&](uint32_t position) { out->validity[position / 64] &= ~(1ull << (position % 64)); };
  clear(out->null);
  if (launch) {
    for (uint32_t i = 0; i < ids; ++i)
      if (dictionary.launch[column.launch_field][out->low + i] < 0) clear(i);
  } else {
    for (uint32_t id : dictionary.missing)
      if (id >= out->low && id - out->low < ids) clear(id - out->low);
  }
  FlatVector::Validity(*out->vector).Initialize(out->validity.data(), out->size);
  return out;
}

void NameVectors::setPositions(DecodedColumn& column, const NameVector& names, size_t rows) {
  if (column.positions) return;
  const uint32_t* ids = column.data->data<uint32_t>();
  const size_t n = column.constant ? 1 : rows;
  const bool has_null = names.null != NameVector::kNone;
  const uint32_t last = names.size - (has_null ? 2 : 1);
  if (names.low == 0 && column.bits.empty() && trace::highest(ids, n) <= last) {
    column.positions = ids;
    return;
  }
  // A file's zones may lie: an id outside of them has no name here.
  const uint32_t null = has_null ? names.null : 0;
  column.own_positions.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t position = ids[i] - names.low;
    column.own_positions[i] = position <= last && column.valid(i) ? position : null;
  }
  column.positions = column.own_positions.data();
}

}  // namespace tracesmith::query
