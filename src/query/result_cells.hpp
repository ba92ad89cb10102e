// The values of a result, as text.
#pragma once

#include <charconv>
#include <duckdb.hpp>
#include <string>
#include <string_view>

namespace tracesmith::query {

inline void appendInt(std::string& out, int64_t v) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
}

/// One column of a chunk, with a short way for the common types.
class Cells {
 public:
  Cells(duckdb::Vector& vector, size_t count) : vector_(vector), physical_(vector.GetType().InternalType()) {
    vector.ToUnifiedFormat(count, format_);
    plain_ = vector.GetType().id() == duckdb::LogicalTypeId::BIGINT ||
             vector.GetType().id() == duckdb::LogicalTypeId::INTEGER ||
             vector.GetType().id() == duckdb::LogicalTypeId::VARCHAR;
  }
  bool null(size_t row) const { return !format_.validity.RowIsValid(format_.sel->get_index(row)); }
  bool isString() const { return plain_ && physical_ == duckdb::PhysicalType::VARCHAR; }
  bool isInt() const { return plain_ && physical_ != duckdb::PhysicalType::VARCHAR; }
  std::string_view string(size_t row) const {
    const auto& s = duckdb::UnifiedVectorFormat::GetData<duckdb::string_t>(format_)[format_.sel->get_index(row)];
    return {s.GetData(), s.GetSize()};
  }
  int64_t integer(size_t row) const {
    auto i = format_.sel->get_index(row);
    return physical_ == duckdb::PhysicalType::INT64 ? duckdb::UnifiedVectorFormat::GetData<int64_t>(format_)[i]
                                                    : duckdb::UnifiedVectorFormat::GetData<int32_t>(format_)[i];
  }
  duckdb::Value value(size_t row) const { return vector_.GetValue(row); }

  /// The text of a value that is not NULL.
  void append(std::string& out, size_t row) const {
    if (isInt())
      appendInt(out, integer(row));
    else if (isString())
      out += string(row);
    else
      out += value(row).ToString();
  }

 private:
  duckdb::Vector& vector_;
  duckdb::PhysicalType physical_;
  duckdb::UnifiedVectorFormat format_;
  bool plain_;
};

}  // namespace tracesmith::query
