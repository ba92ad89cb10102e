#include "trace/batch.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "trace/layout.hpp"

namespace tracesmith::trace {

constexpr size_t kStagedRows = 128;  // of events: 21 KB, in the first cache

void Column::add(const int64_t* slots, size_t stride, size_t count, size_t nulls) {
  if (count_ == 0 && nulls == count) {
    rows_ += count;
    return;
  }
  const bool had_nulls = count_ < rows_;
  if (values_.size() < count_ + count) values_.resize(std::max<size_t>(1024, values_.size() * 2));
  uint64_t* values = values_.data() + count_;
  if (nulls == 0 && !had_nulls) {
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<uint64_t>(slots[i * stride]);
    count_ = rows_ += count;
    return;
  }
  if (valid_.size() < rows_ + count) valid_.resize(std::max<size_t>(1024, rows_ + std::max(count, rows_)));
  // The first NULL, or the first value after NULLs only: the rows before it get their byte now.
  if (!had_nulls || count_ == 0) std::fill_n(valid_.begin(), rows_, static_cast<uint8_t>(!had_nulls));
  uint8_t* valid = valid_.data() + rows_;
  size_t n = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t v = slots[i * stride];
    values[n] = static_cast<uint64_t>(v);
    valid[i] = v != kNull;
    n += v != kNull;
  }
  count_ += n;
  rows_ += count;
}

void Column::clear() { rows_ = count_ = 0; }

size_t Batch::bytes() const {
  size_t total = text_bytes_;
  for (const Column& c : columns_) total += c.values().size() * sizeof(uint64_t) + c.valid().size();
  return total;
}

Batch::Batch(const TableInfo& table)
    : table_(&table),
      columns_(table.columns.size()),
      staged_(kStagedRows * table.columns.size()),
      heaps_(table.columns.size()) {
  for (size_t i = 0; i < columns_.size(); ++i)
    if (table.columns[i].kind == Kind::Text) texts_.push_back(i);
}

void Batch::append(const int64_t* slots, const std::string& texts) {
  int64_t* row = staged_.data() + staged_rows_ * columns_.size();
  std::memcpy(row, slots, columns_.size() * sizeof *row);
  for (size_t i : texts_) {
    if (row[i] == kNull) continue;
    auto offset = static_cast<uint64_t>(row[i]) >> 32, length = static_cast<uint64_t>(row[i]) & 0xffffffff;
    heaps_[i].append(texts, offset, length);
    text_bytes_ += length;
    row[i] = static_cast<int64_t>(length);
  }
  ++rows_;
  if (++staged_rows_ == kStagedRows) settle();
}

void Batch::settle() {
  uint32_t nulls[64] = {};
  countNulls(staged_.data(), staged_rows_, columns_.size(), kNull, nulls);
  for (size_t i = 0; i < columns_.size() && staged_rows_ > 0; ++i)
    if (table_->columns[i].kind != Kind::Sum)
      columns_[i].add(staged_.data() + i, columns_.size(), staged_rows_, nulls[i]);
  staged_rows_ = 0;
}

void Batch::clear() {
  for (Column& c : columns_) c.clear();
  for (std::string& h : heaps_) h.clear();
  rows_ = text_bytes_ = staged_rows_ = 0;
}

namespace {

/// Whether neighbours' differences are smaller than the values themselves, from a sample: true for times and counters.
bool deltaPays(std::span<const uint64_t> v, uint64_t low) {
  if (v.size() < 3) return false;
  size_t stride = std::max<size_t>(1, v.size() / 1024);
  uint64_t plain = 0, delta = 0;
  for (size_t i = stride; i < v.size(); i += stride) {
    auto d = static_cast<int64_t>(v[i] - v[i - 1]);
    plain += static_cast<unsigned>(std::bit_width(v[i] - low));
    delta += static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(d < 0 ? -(d + 1) : d)));
  }
  return delta * 4 < plain * 3;
}

/// Zone and base of values that are not constant; fills codes.
void makeCodes(std::span<const uint64_t> v, Kind kind, ColumnEntry& entry, std::vector<uint64_t>& codes) {
  codes.resize(v.size());
  if (kind == Kind::Real) {
    std::copy(v.begin(), v.end(), codes.begin());
    return;
  }
  auto low = static_cast<uint64_t>(entry.zone_low);
  if (kind == Kind::Type) low = 0;
  if (kind == Kind::Int && deltaPays(v, low)) {
    entry.flags |= kDelta;
    entry.base = static_cast<int64_t>(v[0]);
    codes.resize(v.size() - 1);
    if (!differences(v, codes.data())) return;
    entry.flags |= kZigzag;
    zigzag(codes);
    return;
  }
  entry.base = static_cast<int64_t>(low);
  subtract(v, low, codes.data());
}

void setZone(std::span<const uint64_t> v, Kind kind, ColumnEntry& entry) {
  if (kind == Kind::Type) {
    uint64_t set = 0;
    for (uint64_t x : v) set |= 1ull << (x & 63);
    entry.zone_low = static_cast<int64_t>(set);
  } else if (kind == Kind::Real) {
    double low = std::bit_cast<double>(v[0]), high = low;
    for (uint64_t x : v) {
      low = std::min(low, std::bit_cast<double>(x));
      high = std::max(high, std::bit_cast<double>(x));
    }
    entry.zone_low = std::bit_cast<int64_t>(low);
    entry.zone_high = std::bit_cast<int64_t>(high);
  } else {
    minMax(v, entry.zone_low, entry.zone_high);
  }
}

/// Sums of the rows that have both values.
void addRows(const Column& a, const Column& b, size_t rows, std::vector<uint64_t>& sums) {
  const std::span<const uint64_t> x = a.values(), y = b.values();
  const auto va = a.valid(), vb = b.valid();
  sums.resize(std::min(x.size(), y.size()));
  size_t n = 0;
  if (va.empty() && vb.empty()) {
    for (; n < sums.size(); ++n) sums[n] = x[n] + y[n];
    return;
  }
  for (size_t row = 0, i = 0, k = 0; row < rows; ++row) {
    const bool in_a = va.empty() || va[row], in_b = vb.empty() || vb[row];
    if (in_a && in_b) sums[n++] = x[i] + y[k];
    i += in_a;
    k += in_b;
  }
  sums.resize(n);
}

}  // namespace

std::string Batch::encode(Encoder& encoder) {
  settle();
  std::vector<ColumnEntry> entries;
  std::vector<size_t> validity_owner;  // column index of each entry that owns a validity
  std::string payload;
  std::vector<uint64_t> codes;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const ColumnInfo& info = table_->columns[i];
    const Column& column = columns_[i];
    ColumnEntry entry{};
    entry.column = info.id;
    entry.type = diskType(info.kind);
    entry.offset = static_cast<uint32_t>(payload.size());
    if (info.kind == Kind::Sum) {
      // ts and dur are the two columns before it.
      const Column &ts = columns_[i - 2], &dur = columns_[i - 1];
      if (ts.values().empty() || dur.values().empty()) continue;
      entry.encoding = Encoding::kSum;
      entry.base = table_->columns[i - 2].id | static_cast<int64_t>(table_->columns[i - 1].id) << 32;
      std::vector<uint64_t>& sums = codes;
      addRows(ts, dur, rows_, sums);
      if (sums.empty()) continue;  // no row has both
      entry.values = static_cast<uint32_t>(sums.size());
      setZone(sums, Kind::Int, entry);
      entries.push_back(entry);
      continue;
    }
    if (column.values().empty()) continue;
    const std::span<const uint64_t> v = column.values();
    entry.values = static_cast<uint32_t>(v.size());
    if (!column.valid().empty()) {
      for (size_t e = 0; e < entries.size() && !(entry.flags & kSharedValidity); ++e)
        if ((entries[e].flags & kOwnValidity) &&
            std::ranges::equal(columns_[validity_owner[e]].valid(), column.valid())) {
          entry.flags |= kSharedValidity;
          entry.validity_index = static_cast<uint16_t>(e);
        }
      if (!(entry.flags & kSharedValidity)) {
        entry.flags |= kOwnValidity;
        encoder.bytePlane(column.valid(), payload);
      }
    }
    if (info.kind == Kind::Text) {
      entry.encoding = Encoding::kHeap;
      encoder.heap(v, heaps_[i], payload);
    } else {
      setZone(v, info.kind, entry);
      if (std::memcmp(v.data(), v.data() + 1, (v.size() - 1) * sizeof v[0]) == 0) {
        entry.encoding = Encoding::kConstant;
        entry.base = static_cast<int64_t>(v[0]);
      } else {
        entry.encoding = Encoding::kPlanes;
        makeCodes(v, info.kind, entry, codes);
        encoder.planes(codes, payload);
      }
    }
    entry.size = static_cast<uint32_t>(payload.size()) - entry.offset;
    entry.checksum = static_cast<uint32_t>(hash64(payload.data() + entry.offset, entry.size));
    validity_owner.resize(entries.size() + 1);
    validity_owner.back() = i;
    entries.push_back(entry);
  }
  BlockHeader header{};
  std::memcpy(header.magic, kBlockMagic, sizeof header.magic);
  header.directory_size = static_cast<uint32_t>(entries.size() * sizeof(ColumnEntry));
  header.table = table_->id;
  header.columns = static_cast<uint16_t>(entries.size());
  header.rows = static_cast<uint32_t>(rows_);
  size_t size = sizeof header + header.directory_size + payload.size();
  header.block_size = static_cast<uint32_t>((size + 7) / 8 * 8);
  std::string block;
  block.reserve(header.block_size);
  block.append(reinterpret_cast<const char*>(&header), sizeof header);
  block.append(reinterpret_cast<const char*>(entries.data()), header.directory_size);
  block.append(payload);
  block.resize(header.block_size, '\0');
  return block;
}

void seal(std::string& block, uint64_t sequence, uint32_t stream) {
  BlockHeader header;
  std::memcpy(&header, block.data(), sizeof header);
  header.sequence = sequence;
  header.stream = stream;
  std::memcpy(block.data(), &header, sizeof header);
  header.checksum = blockChecksum(block.data(), header.directory_size);
  std::memcpy(block.data(), &header, sizeof header);
}

}  // namespace tracesmith::trace
