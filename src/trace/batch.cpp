#include "trace/batch.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "trace/layout.hpp"

namespace tracesmith::trace {

void Column::pad(size_t rows) {
  if (rows_ >= rows) return;
  if (valid_.empty()) valid_.assign(rows_, 1);
  valid_.resize(rows, 0);
  rows_ = rows;
}

void Column::clear() {
  values_.clear();
  valid_.clear();
  rows_ = 0;
}

size_t Batch::bytes() const {
  size_t total = text_bytes_;
  for (const Column& c : columns_) total += c.values().size() * sizeof(uint64_t) + c.valid().size();
  return total;
}

void Batch::append(const int64_t* slots, const std::string& texts) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (slots[i] == kNull) continue;
    Kind kind = table_->columns[i].kind;
    if (kind == Kind::Sum) continue;
    if (kind == Kind::Text) {
      auto offset = static_cast<uint64_t>(slots[i]) >> 32, length = static_cast<uint64_t>(slots[i]) & 0xffffffff;
      heaps_[i].append(texts, offset, length);
      text_bytes_ += length;
      columns_[i].set(rows_, static_cast<int64_t>(length));
    } else {
      columns_[i].set(rows_, slots[i]);
    }
  }
  ++rows_;
}

void Batch::clear() {
  for (Column& c : columns_) c.clear();
  for (std::string& h : heaps_) h.clear();
  rows_ = text_bytes_ = 0;
}

namespace {

/// Whether neighbours' differences are smaller than the values themselves, from a sample: true for times and counters.
bool deltaPays(const std::vector<uint64_t>& v, uint64_t low) {
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
void makeCodes(const std::vector<uint64_t>& v, Kind kind, ColumnEntry& entry, std::vector<uint64_t>& codes) {
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
    bool negative = false;
    for (size_t i = 1; i < v.size(); ++i) {
      codes[i - 1] = v[i] - v[i - 1];
      negative |= static_cast<int64_t>(codes[i - 1]) < 0;
    }
    if (!negative) return;
    entry.flags |= kZigzag;
    for (uint64_t& c : codes) c = (c << 1) ^ (0 - (c >> 63));
    return;
  }
  entry.base = static_cast<int64_t>(low);
  for (size_t i = 0; i < v.size(); ++i) codes[i] = v[i] - low;
}

void setZone(const std::vector<uint64_t>& v, Kind kind, ColumnEntry& entry) {
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
    int64_t low = static_cast<int64_t>(v[0]), high = low;
    for (uint64_t x : v) {
      low = std::min(low, static_cast<int64_t>(x));
      high = std::max(high, static_cast<int64_t>(x));
    }
    entry.zone_low = low;
    entry.zone_high = high;
  }
}

/// Sums of the rows that have both values. Both columns are padded.
void addRows(const Column& a, const Column& b, size_t rows, std::vector<uint64_t>& sums) {
  sums.clear();
  const std::vector<uint8_t> &va = a.valid(), &vb = b.valid();
  for (size_t row = 0, i = 0, k = 0; row < rows; ++row) {
    const bool in_a = va.empty() || va[row], in_b = vb.empty() || vb[row];
    if (in_a && in_b) sums.push_back(a.values()[i] + b.values()[k]);
    i += in_a;
    k += in_b;
  }
}

}  // namespace

std::string Batch::encode(Encoder& encoder) {
  std::vector<ColumnEntry> entries;
  std::vector<size_t> validity_owner;  // column index of each entry that owns a validity
  std::string payload;
  std::vector<uint64_t> codes;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const ColumnInfo& info = table_->columns[i];
    Column& column = columns_[i];
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
    column.pad(rows_);
    const std::vector<uint64_t>& v = column.values();
    entry.values = static_cast<uint32_t>(v.size());
    if (!column.valid().empty()) {
      for (size_t e = 0; e < entries.size() && !(entry.flags & kSharedValidity); ++e)
        if ((entries[e].flags & kOwnValidity) && columns_[validity_owner[e]].valid() == column.valid()) {
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
