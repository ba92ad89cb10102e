#include "query/vector_filler.hpp"

#include <utf8proc_wrapper.hpp>

#include "query/column_loops.hpp"

namespace tracesmith::query {
namespace {

using duckdb::ConstantVector;
using duckdb::FlatVector;
using duckdb::Vector;
using duckdb::VectorType;
using trace::Kind;

void setNull(Vector& out) {
  out.SetVectorType(VectorType::CONSTANT_VECTOR);
  ConstantVector::SetNull(out, true);
}

template <typename T>
void setConstant(Vector& out, const T& value) {
  out.SetVectorType(VectorType::CONSTANT_VECTOR);
  ConstantVector::GetData<T>(out)[0] = value;
}

}  // namespace

void VectorFiller::fill(const SqlColumn& column, const RowSet& rows, size_t first, size_t count, Vector& out) {
  const Piece piece{rows, first, count};
  if (column.column < 0) {
    const std::string& name = plan_.traces->sources()[columns_.ref().source].name;
    return setConstant(out, duckdb::string_t(name.data(), static_cast<uint32_t>(name.size())));
  }
  DecodedColumn& c = *columns_.get(column.column);
  if (c.all_null) return setNull(out);
  switch (column.kind) {
    case Kind::Str:
    case Kind::Launch:
      return names(column, c, piece, out);
    case Kind::Text:
      return text(c, piece, out);
    case Kind::Sum:
      return sum(column.column, piece, out);
    case Kind::Type:
      return flat(c.typeData(), c, piece, out);
    case Kind::Int32:
      return flat(c.data->data<int32_t>(), c, piece, out);
    case Kind::Real:
      return flat(c.data->data<double>(), c, piece, out);
    case Kind::Int:
      return flat(c.data->data<int64_t>(), c, piece, out);
  }
}

void VectorFiller::validity(const DecodedColumn& column, const Piece& piece, Vector& out) {
  if (column.bits.empty()) return;
  if (piece.rows.all) {
    FlatVector::Validity(out).Initialize(const_cast<uint64_t*>(column.bits.data()) + piece.first / 64, piece.count);
    return;
  }
  auto& mask = FlatVector::Validity(out);
  mask.Initialize(STANDARD_VECTOR_SIZE);
  gatherBits(column.bits.data(), piece.rows.rows.data() + piece.first, piece.count, mask.GetData());
}

template <typename T>
void VectorFiller::flat(const T* values, const DecodedColumn& column, const Piece& piece, Vector& out) {
  if (column.constant) return setConstant(out, values[0]);
  if (piece.rows.all) {
    FlatVector::SetData(out, reinterpret_cast<duckdb::data_ptr_t>(const_cast<T*>(values + piece.first)));
  } else {
    gather(values, piece.rows.rows.data() + piece.first, piece.count, FlatVector::GetData<T>(out));
  }
  validity(column, piece, out);
}

void VectorFiller::sum(int column, const Piece& piece, Vector& out) {
  const DecodedColumn &ts = *columns_.get(column - 2), &dur = *columns_.get(column - 1);
  const int64_t *a = ts.data->data<int64_t>(), *b = dur.data->data<int64_t>();
  auto* to = FlatVector::GetData<int64_t>(out);
  if (piece.rows.all && !ts.constant && !dur.constant) {
    addColumns(a + piece.first, b + piece.first, piece.count, to);
  } else {
    for (size_t i = 0; i < piece.count; ++i) {
      const size_t row = piece.rows.at(piece.first + i);
      addColumns(a + (ts.constant ? 0 : row), b + (dur.constant ? 0 : row), 1, to + i);
    }
  }
  validity(*columns_.get(column), piece, out);
}

void VectorFiller::names(const SqlColumn& column, DecodedColumn& data, const Piece& piece, Vector& out) {
  NameVector& names = names_.get(column, columns_.ref());
  NameVectors::setPositions(data, names, columns_.block().rows);
  if (data.constant) {
    const uint32_t position = data.positions[0];
    if (!FlatVector::Validity(*names.vector).RowIsValid(position)) return setNull(out);
    if (column.kind == Kind::Str)
      return setConstant(out, FlatVector::GetData<duckdb::string_t>(*names.vector)[position]);
    return setConstant(out, FlatVector::GetData<int32_t>(*names.vector)[position]);
  }
  duckdb::SelectionVector selection;
  if (piece.rows.all) {
    selection.Initialize(const_cast<duckdb::sel_t*>(data.positions + piece.first));
  } else {
    selection.Initialize(STANDARD_VECTOR_SIZE);
    gather(data.positions, piece.rows.rows.data() + piece.first, piece.count, selection.data());
  }
  if (names.known_size) {
    out.Dictionary(*names.vector, names.size, selection, piece.count);
    duckdb::DictionaryVector::SetDictionaryId(out, names.id);
  } else {
    out.Slice(*names.vector, selection, piece.count);
  }
}

void VectorFiller::text(const DecodedColumn& column, const Piece& piece, Vector& out) {
  auto* to = FlatVector::GetData<duckdb::string_t>(out);
  for (size_t i = 0; i < piece.count; ++i) {
    std::string_view text = column.data->textAt(piece.rows.at(piece.first + i));
    to[i] = duckdb::string_t(text.data(), static_cast<uint32_t>(text.size()));
    if (!duckdb::Utf8Proc::IsValid(text.data(), text.size())) {
      std::string fixed(text);
      duckdb::Utf8Proc::MakeValid(fixed.data(), fixed.size());
      to[i] = duckdb::StringVector::AddString(out, fixed);
    }
  }
  validity(column, piece, out);
}

}  // namespace tracesmith::query
