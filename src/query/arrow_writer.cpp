// A result as an Arrow IPC stream (arrow.apache.org/docs/format/Columnar.html): a schema, record batches, an end mark.
// Numbers, truth values, texts, dates and timestamps keep their types; whatever else a query gives becomes text.
#include "query/arrow_writer.hpp"

#include "query/flat_writer.hpp"

namespace tracesmith::query {
namespace {

using duckdb::LogicalType;
using duckdb::LogicalTypeId;
using duckdb::PhysicalType;
using duckdb::UnifiedVectorFormat;

constexpr size_t kBatchRows = 1 << 15, kBatchBytes = 8 << 20;

// Numbers of Arrow's Schema.fbs and Message.fbs.
constexpr uint8_t kInt = 2, kFloat = 3, kUtf8 = 5, kBool = 6, kDecimal = 7, kDate = 8, kTimestamp = 10;
constexpr uint8_t kSchema = 1, kRecordBatch = 3;
constexpr int16_t kVersion5 = 4;

/// How a column goes over.
struct ArrowType {
  uint8_t kind;
  uint8_t bytes;  ///< of a value; 0: bits, or texts with offsets
  std::vector<FlatWriter::Slot> fields;
  const char* zone = nullptr;
};

ArrowType integer(uint8_t bytes, bool is_signed) {
  return {kInt, bytes, {FlatWriter::slot<int32_t>(bytes * 8), FlatWriter::slot<uint8_t>(is_signed)}};
}
ArrowType timestamp(int16_t unit, const char* zone = nullptr) {
  return {kTimestamp, 8, {FlatWriter::slot(unit), zone ? FlatWriter::kOffset : FlatWriter::kAbsent}, zone};
}
ArrowType decimal(int32_t digits, int32_t scale) {
  return {kDecimal, 16, {FlatWriter::slot(digits), FlatWriter::slot(scale), FlatWriter::slot<int32_t>(128)}};
}

ArrowType arrowType(const LogicalType& type) {
  switch (type.id()) {
    case LogicalTypeId::BOOLEAN:
      return {kBool, 0, {}};
    case LogicalTypeId::TINYINT:
      return integer(1, true);
    case LogicalTypeId::SMALLINT:
      return integer(2, true);
    case LogicalTypeId::INTEGER:
      return integer(4, true);
    case LogicalTypeId::BIGINT:
      return integer(8, true);
    case LogicalTypeId::UTINYINT:
      return integer(1, false);
    case LogicalTypeId::USMALLINT:
      return integer(2, false);
    case LogicalTypeId::UINTEGER:
      return integer(4, false);
    case LogicalTypeId::UBIGINT:
      return integer(8, false);
    case LogicalTypeId::HUGEINT:  // what sum() gives
      return decimal(38, 0);
    case LogicalTypeId::DECIMAL:
      return decimal(duckdb::DecimalType::GetWidth(type), duckdb::DecimalType::GetScale(type));
    case LogicalTypeId::FLOAT:
      return {kFloat, 4, {FlatWriter::slot<int16_t>(1)}};
    case LogicalTypeId::DOUBLE:
      return {kFloat, 8, {FlatWriter::slot<int16_t>(2)}};
    case LogicalTypeId::DATE:
      return {kDate, 4, {FlatWriter::slot<int16_t>(0)}};
    case LogicalTypeId::TIMESTAMP_SEC:
      return timestamp(0);
    case LogicalTypeId::TIMESTAMP_MS:
      return timestamp(1);
    case LogicalTypeId::TIMESTAMP:
      return timestamp(2);
    case LogicalTypeId::TIMESTAMP_NS:
      return timestamp(3);
    case LogicalTypeId::TIMESTAMP_TZ:
      return timestamp(2, "UTC");
    default:
      return {kUtf8, 0, {}};
  }
}

/// Values of one column, until there are enough for a batch.
class ArrowColumn {
 public:
  explicit ArrowColumn(const LogicalType& type) : type_(type), arrow_(arrowType(type)) { clear(); }

  void append(duckdb::Vector& vector, size_t count) {
    UnifiedVectorFormat format;
    vector.ToUnifiedFormat(count, format);
    for (size_t r = 0; r < count; ++r) {
      const auto i = format.sel->get_index(r);
      const bool valid = format.validity.RowIsValid(i);
      bit(validity_, rows_, valid);
      nulls_ += !valid;
      if (arrow_.kind == kBool)
        bit(data_, rows_, valid && UnifiedVectorFormat::GetData<bool>(format)[i]);
      else if (arrow_.bytes > 0)
        number(format, i, valid);
      else
        text(vector, format, i, r, valid);
      ++rows_;
    }
  }
  size_t bytes() const { return data_.size(); }
  uint64_t nulls() const { return nulls_; }
  const ArrowType& type() const { return arrow_; }
  /// The buffers of a batch, in Arrow's order. No NULL: no map of them.
  std::vector<std::string_view> buffers() const {
    std::vector<std::string_view> list{nulls_ > 0 ? std::string_view(validity_) : std::string_view()};
    if (arrow_.kind == kUtf8) list.emplace_back(reinterpret_cast<const char*>(ends_.data()), ends_.size() * 4);
    list.emplace_back(data_);
    return list;
  }
  void clear() {
    validity_.clear();
    data_.clear();
    ends_.assign(1, 0);
    rows_ = nulls_ = 0;
  }

 private:
  static void bit(std::string& to, size_t at, bool value) {
    if (at % 8 == 0) to += '\0';
    if (value) to.back() = static_cast<char>(to.back() | 1 << at % 8);
  }
  void number(const UnifiedVectorFormat& format, size_t i, bool valid) {
    const size_t width = duckdb::GetTypeIdSize(type_.InternalType());
    const auto* value = reinterpret_cast<const char*>(format.data) + i * width;
    if (!valid) {
      data_.append(arrow_.bytes, '\0');
      return;
    }
    data_.append(value, width);
    // Small decimals are kept in fewer bytes than Arrow's 16: the sign goes on.
    if (width < arrow_.bytes) data_.append(arrow_.bytes - width, value[width - 1] < 0 ? '\xff' : '\0');
  }
  void text(const duckdb::Vector& vector, const UnifiedVectorFormat& format, size_t i, size_t row, bool valid) {
    if (valid && type_.id() == LogicalTypeId::VARCHAR) {
      const auto& s = UnifiedVectorFormat::GetData<duckdb::string_t>(format)[i];
      data_.append(s.GetData(), s.GetSize());
    } else if (valid) {
      data_ += vector.GetValue(row).ToString();
    }
    ends_.push_back(static_cast<int32_t>(data_.size()));
  }

  LogicalType type_;
  ArrowType arrow_;
  std::string validity_, data_;
  std::vector<int32_t> ends_;
  size_t rows_ = 0;
  uint64_t nulls_ = 0;
};

class ArrowWriter final : public ResultWriter {
 public:
  ArrowWriter(const RunOptions& options, const duckdb::vector<duckdb::string>& names,
              const duckdb::vector<LogicalType>& types)
      : write_(options.write), names_(names) {
    for (const LogicalType& type : types) columns_.emplace_back(type);
  }

  Status chunk(duckdb::DataChunk& chunk) override {
    TS_TRY(begin());
    for (size_t c = 0; c < columns_.size(); ++c) columns_[c].append(chunk.data[c], chunk.size());
    rows_ += chunk.size();
    size_t bytes = 0;
    for (const ArrowColumn& c : columns_) bytes += c.bytes();
    return rows_ >= kBatchRows || bytes >= kBatchBytes ? batch() : Status();
  }

  Status end() override {
    TS_TRY(begin());
    if (rows_ > 0) TS_TRY(batch());
    return write_(std::string_view("\xff\xff\xff\xff\0\0\0\0", 8));
  }

 private:
  /// The schema, once.
  Status begin() {
    if (begun_) return {};
    begun_ = true;
    FlatWriter f;
    std::vector<size_t> message, schema, field, type;
    f.table({FlatWriter::slot(kVersion5), FlatWriter::slot(kSchema), FlatWriter::kOffset, FlatWriter::slot<int64_t>(0)},
            message);
    f.table({FlatWriter::slot<int16_t>(0), FlatWriter::kOffset}, schema);
    f.pointToTable(message[2]);
    f.vector(schema[1], columns_.size(), 4);
    const size_t list = f.size();
    for (size_t c = 0; c < columns_.size(); ++c) f.put<uint32_t>(0);
    for (size_t c = 0; c < columns_.size(); ++c) {
      const ArrowType& of = columns_[c].type();
      f.table({FlatWriter::kOffset, FlatWriter::slot<uint8_t>(1), FlatWriter::slot(of.kind), FlatWriter::kOffset,
               FlatWriter::kAbsent, FlatWriter::kOffset},
              field);
      f.pointToTable(list + 4 * c);
      f.table(of.fields, type);
      f.pointToTable(field[3]);
      if (of.zone) f.string(type[1], of.zone);
      f.string(field[0], names_[c]);
      f.vector(field[5], 0, 4);  // no children: readers want the empty list
    }
    return send(f.finish(), {});
  }

  Status batch() {
    std::vector<std::string_view> buffers;
    for (const ArrowColumn& c : columns_)
      for (std::string_view b : c.buffers()) buffers.push_back(b);
    int64_t size = 0;
    for (std::string_view b : buffers) size += padded(b.size());
    FlatWriter f;
    std::vector<size_t> message, record;
    f.table({FlatWriter::slot(kVersion5), FlatWriter::slot(kRecordBatch), FlatWriter::kOffset, FlatWriter::slot(size)},
            message);
    f.table({FlatWriter::slot<int64_t>(static_cast<int64_t>(rows_)), FlatWriter::kOffset, FlatWriter::kOffset}, record);
    f.pointToTable(message[2]);
    f.vector(record[1], columns_.size(), 8);
    for (const ArrowColumn& c : columns_) {
      f.put<int64_t>(static_cast<int64_t>(rows_));
      f.put<int64_t>(static_cast<int64_t>(c.nulls()));
    }
    f.vector(record[2], buffers.size(), 8);
    int64_t at = 0;
    for (std::string_view b : buffers) {
      f.put<int64_t>(at);
      f.put<int64_t>(static_cast<int64_t>(b.size()));
      at += padded(b.size());
    }
    const Status sent = send(f.finish(), buffers);
    for (ArrowColumn& c : columns_) c.clear();
    rows_ = 0;
    return sent;
  }

  static int64_t padded(size_t size) { return static_cast<int64_t>((size + 7) / 8 * 8); }

  Status send(const std::string& heading, const std::vector<std::string_view>& buffers) {
    const auto size = static_cast<int32_t>(heading.size());
    std::string out("\xff\xff\xff\xff", 4);
    out.append(reinterpret_cast<const char*>(&size), sizeof size);
    out += heading;
    for (std::string_view b : buffers) {
      out += b;
      out.append(static_cast<size_t>(padded(b.size())) - b.size(), '\0');
    }
    return write_(out);
  }

  const Write& write_;
  duckdb::vector<duckdb::string> names_;
  std::vector<ArrowColumn> columns_;
  size_t rows_ = 0;
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<ResultWriter> makeArrowWriter(const RunOptions& options, const duckdb::vector<duckdb::string>& names,
                                              const duckdb::vector<LogicalType>& types) {
  return std::make_unique<ArrowWriter>(options, names, types);
}

}  // namespace tracesmith::query
