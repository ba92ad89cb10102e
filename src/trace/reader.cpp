#include "tracesmith/trace/reader.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "trace/block_index.hpp"
#include "trace/encoding.hpp"

namespace tracesmith::trace {
namespace {

// What all string tables of a file may take. Enough for millions of names; a zip bomb stops here.
constexpr size_t kMaxStringsBytes = 1u << 30;

}  // namespace

const ColumnEntry* Block::find(int column) const {
  uint16_t id = table->columns[static_cast<size_t>(column)].id;
  for (const ColumnEntry& e : columns)
    if (e.column == id) return &e;
  return nullptr;
}

bool Block::zone(int column, int64_t& low, int64_t& high) const {
  const ColumnEntry* e = find(column);
  if (!e || e->type == DiskType::kText) return false;
  low = e->zone_low;
  high = e->zone_high;
  return true;
}

uint64_t Block::types() const {
  const ColumnEntry* e = find(events::type);
  return e ? static_cast<uint64_t>(e->zone_low) : 0;
}

int64_t Strings::find(std::string_view s) const {
  for (size_t i = 0; i < views_.size(); ++i)
    if (views_[i].data() && views_[i] == s) return static_cast<int64_t>(i);
  return -1;
}

struct Reader::Impl {
  File file;
  BlockIndex index;
  std::vector<std::string> unknown_columns;

  mutable std::mutex strings_mutex;  // guards the next two; taken before `mutex`
  mutable std::map<uint32_t, Strings> strings;
  mutable std::mutex mutex;            // guards damage
  mutable std::vector<Damage> damage;  // found while decoding

  /// The bytes of a column, in `buffer`, which only grows.
  Status readColumn(const Block& block, const ColumnEntry& entry, std::vector<char>& buffer,
                    std::string_view& bytes) const {
    uint64_t at = block.offset + sizeof(BlockHeader) + block.columns.size() * sizeof(ColumnEntry) + entry.offset;
    if (buffer.size() < entry.size) buffer.resize(entry.size);
    size_t got;
    TS_TRY(file.readAt(at, buffer.data(), entry.size, got));
    if (got < entry.size) return Status::corrupt("the file ends inside the block");
    if (entry.checksum != static_cast<uint32_t>(hash64(buffer.data(), entry.size)))
      return Status::corrupt("checksum of a column does not match");
    bytes = {buffer.data(), entry.size};
    return {};
  }
};

Reader::Reader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reader::~Reader() = default;

Result<std::unique_ptr<Reader>> Reader::open(const std::string& path) {
  Result<File> file = File::openRead(path);
  if (!file) return file.status();
  auto impl = std::make_unique<Impl>();
  impl->file = std::move(*file);
  TS_TRY(impl->index.readHeader(impl->file));
  std::unique_ptr<Reader> reader(new Reader(std::move(impl)));
  TS_TRY(reader->refresh());
  return reader;
}

Status Reader::refresh() {
  size_t schemas = impl_->index.schemas.size();
  TS_TRY(impl_->index.walk(impl_->file));
  for (; schemas < impl_->index.schemas.size(); ++schemas) {
    // Only names what is unknown: a schema block that cannot be decoded does no harm.
    static constexpr ColumnInfo kColumns[] = {
        {1, "", Kind::Int, ""}, {2, "", Kind::Text, ""}, {3, "", Kind::Int, ""}, {4, "", Kind::Text, ""}};
    static constexpr TableInfo kTable = {kSchemaTable, "schema", "", kColumns};
    Block block = impl_->index.schemas[schemas];
    block.table = &kTable;
    BlockDecoder decoder(*this);
    ColumnData table, table_name, column, name;
    if (!decoder.decode(block, 0, table) || !decoder.decode(block, 1, table_name) ||
        !decoder.decode(block, 2, column) || !decoder.decode(block, 3, name))
      continue;
    for (size_t i = 0; i < block.rows; ++i) {
      const TableInfo* known = findTable(static_cast<uint16_t>(table.data<int64_t>()[i]));
      auto id = static_cast<uint16_t>(column.data<int64_t>()[i]);
      if (known &&
          std::any_of(known->columns.begin(), known->columns.end(), [&](const ColumnInfo& c) { return c.id == id; }))
        continue;
      impl_->unknown_columns.push_back(std::string(table_name.textAt(i)) + "." + std::string(name.textAt(i)));
    }
  }
  return {};
}

const std::string& Reader::path() const { return impl_->file.path(); }
uint64_t Reader::fileSize() const { return impl_->index.file_size; }
int64_t Reader::createdNs() const { return impl_->index.header.created_ns; }
bool Reader::closed() const { return impl_->index.closed; }
uint64_t Reader::unfinishedBytes() const { return impl_->index.unfinished_bytes; }
std::span<const Block> Reader::blocks() const { return impl_->index.blocks; }
uint64_t Reader::unknownBlocks() const { return impl_->index.unknown_blocks; }
const std::vector<std::string>& Reader::unknownColumns() const { return impl_->unknown_columns; }

std::string Reader::traceId() const {
  std::string out;
  for (uint8_t b : impl_->index.header.trace_id) {
    out += "0123456789abcdef"[b >> 4];
    out += "0123456789abcdef"[b & 15];
  }
  return out;
}

std::vector<const Block*> Reader::blocks(const TableInfo& table) const {
  std::vector<const Block*> out;
  for (const Block& b : impl_->index.blocks)
    if (b.table == &table) out.push_back(&b);
  return out;
}

uint64_t Reader::rows(const TableInfo& table) const {
  uint64_t rows = 0;
  for (const Block& b : impl_->index.blocks)
    if (b.table == &table) rows += b.rows;
  return rows;
}

Result<const Strings*> Reader::strings(uint32_t stream) const {
  static constexpr ColumnInfo kColumns[] = {{1, "id", Kind::Int, ""}, {2, "value", Kind::Text, ""}};
  static constexpr TableInfo kTable = {kStringsTable, "strings", "", kColumns};
  std::lock_guard lock(impl_->strings_mutex);
  Strings& strings = impl_->strings[stream];
  std::optional<BlockDecoder> decoder;  // only if there is something to load
  ColumnData ids, values;
  for (; strings.next_block_ < impl_->index.strings.size(); ++strings.next_block_) {
    Block block = impl_->index.strings[strings.next_block_];
    if (block.stream != stream) continue;
    block.table = &kTable;
    if (!decoder) decoder.emplace(*this);
    if (!decoder->decode(block, 0, ids) || !decoder->decode(block, 1, values)) continue;
    auto heap = std::make_unique<std::string>();
    for (size_t i = 0; i < block.rows; ++i) heap->append(values.textAt(i));
    strings.bytes_ += heap->size() + block.rows * sizeof(std::string_view);
    size_t total = 0;
    for (const auto& [id, other] : impl_->strings) total += other.bytes_;
    if (total > kMaxStringsBytes)
      return Status::exhausted(path() + " has more than 1 GiB of names (offset " + std::to_string(block.offset) + ")");
    size_t at = 0;
    for (size_t i = 0; i < block.rows; ++i) {
      auto id = static_cast<uint64_t>(ids.data<int64_t>()[i]);
      size_t length = values.textAt(i).size();
      // Ids are dense: one far beyond the strings seen is nonsense, not a reason to allocate.
      if (id < strings.views_.size() + kMaxRows + block.rows) {
        if (id >= strings.views_.size()) strings.views_.resize(id + 1);
        strings.views_[id] = std::string_view(*heap).substr(at, length);
      }
      at += length;
    }
    strings.heaps_.push_back(std::move(heap));
  }
  return static_cast<const Strings*>(&strings);
}

std::vector<Damage> Reader::damage() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<Damage> all = impl_->index.damage;
  all.insert(all.end(), impl_->damage.begin(), impl_->damage.end());
  std::sort(all.begin(), all.end(), [](const Damage& a, const Damage& b) { return a.offset < b.offset; });
  return all;
}

void Reader::addDamage(uint64_t offset, uint64_t bytes, const std::string& what) const {
  std::lock_guard lock(impl_->mutex);
  for (const Damage& d : impl_->damage)
    if (d.offset == offset) return;
  impl_->damage.push_back({offset, bytes, what});
}

Status Reader::verify() const {
  BlockDecoder decoder(*this);
  ColumnData data;
  for (const Block& block : blocks())
    for (size_t c = 0; c < block.table->columns.size(); ++c)
      if (!decoder.decode(block, static_cast<int>(c), data)) break;
  for (const Block& block : impl_->index.strings)
    if (Result<const Strings*> s = strings(block.stream); !s) return s.status();
  return {};
}

std::string Reader::damageSummary() const {
  std::vector<Damage> all = damage();
  if (all.empty()) return {};
  return std::to_string(all.size()) + (all.size() == 1 ? " damaged place was" : " damaged places were") +
         " left out of " + path() + " (first at offset " + std::to_string(all[0].offset) + ": " + all[0].what + ")";
}

struct BlockDecoder::Impl {
  const Reader& reader;
  Decoder decoder;
  std::vector<char> buffer;
  // Validity of the block decoded last, by owner: columns share it.
  uint64_t validity_block = UINT64_MAX;
  std::map<uint16_t, std::vector<uint8_t>> validity;
  std::unique_ptr<ColumnData> other;  // dur, for sums

  explicit Impl(const Reader& r) : reader(r) {}

  Status validityOf(const Block& block, uint16_t index, std::vector<uint8_t>& out) {
    if (validity_block != block.offset) validity.clear();
    validity_block = block.offset;
    auto [it, missing] = validity.try_emplace(index);
    if (missing) {
      std::vector<char> slice;
      std::string_view in;
      Status read = reader.impl_->readColumn(block, block.columns[index], slice, in);
      it->second.resize(block.rows);
      if (read.ok() && !decoder.planes(in, block.rows, it->second.data()))
        read = Status::corrupt("a NULL map does not decode");
      if (!read) {
        validity.erase(it);
        return read;
      }
    }
    out = it->second;
    return {};
  }

  template <typename T>
  Status values(const Block& block, const ColumnEntry& e, std::string_view in, ColumnData& out, bool keep_constant) {
    const size_t rows = block.rows, n = e.values;
    const size_t words = ((keep_constant && e.encoding == Encoding::kConstant ? 1 : rows) * sizeof(T) + 7) / 8;
    if (out.values_.size() < words) out.values_.resize(words);  // never shrunk: growing again would fill it with zeros
    T* v = reinterpret_cast<T*>(out.values_.data());
    if (e.encoding == Encoding::kConstant) {
      out.constant_ = true;
      std::fill(v, v + (keep_constant ? 1 : rows), static_cast<T>(e.base));
      if (out.has_nulls_ && !keep_constant)
        for (size_t i = 0; i < rows; ++i)
          if (!out.valid_[i]) v[i] = 0;
      return {};
    }
    if (e.encoding != Encoding::kPlanes) return Status::corrupt("unknown encoding");
    if (e.flags & kDelta) {
      if (n == 0) return Status::corrupt("a column does not decode");
      v[0] = static_cast<T>(e.base);
      if constexpr (sizeof(T) == 8) {
        if (!decoder.deltas(in, n - 1, reinterpret_cast<int64_t*>(v + 1), e.base, e.flags & kZigzag))
          return Status::corrupt("a column does not decode");
      } else {
        if (!decoder.planes(in, n - 1, v + 1)) return Status::corrupt("a column does not decode");
        for (size_t i = 1; i < n; ++i) {
          T d = v[i];
          if (e.flags & kZigzag) d = static_cast<T>((d >> 1) ^ static_cast<T>(0 - (d & 1)));
          v[i] = static_cast<T>(v[i - 1] + d);
        }
      }
    } else {
      if (!decoder.planes(in, n, v, static_cast<T>(e.base))) return Status::corrupt("a column does not decode");
    }
    if (out.has_nulls_) spread(v, rows, n, out.valid_);
    return {};
  }

  /// Dense values to their rows, in place, from the back.
  template <typename T>
  static void spread(T* v, size_t rows, size_t n, const std::vector<uint8_t>& valid) {
    for (size_t i = rows; i-- > 0;) v[i] = valid[i] && n > 0 ? v[--n] : T(0);
  }

  Status text(const Block& block, const ColumnEntry& e, std::string_view in, ColumnData& out) {
    const size_t rows = block.rows, n = e.values;
    if (e.encoding != Encoding::kHeap || !decoder.heap(in, n, out.lengths_, out.heap_))
      return Status::corrupt("a text column does not decode");
    if (out.has_nulls_) {
      out.lengths_.resize(rows);
      spread(out.lengths_.data(), rows, n, out.valid_);
    }
    out.ends_.resize(rows);
    uint32_t end = 0;
    for (size_t i = 0; i < rows; ++i) out.ends_[i] = end += out.lengths_[i];
    return {};
  }

  Status column(BlockDecoder& self, const Block& block, int index, ColumnData& out, bool keep_constant) {
    const ColumnInfo& info = block.table->columns[static_cast<size_t>(index)];
    const ColumnEntry* e = block.find(index);
    out.has_nulls_ = out.all_null_ = out.constant_ = false;
    if (!e) {
      out.has_nulls_ = out.all_null_ = out.constant_ = true;
      out.valid_.assign(block.rows, 0);
      out.values_.assign(block.rows, 0);
      out.lengths_.assign(block.rows, 0);
      out.ends_.assign(block.rows, 0);
      out.heap_.clear();
      return {};
    }
    if (e->type != diskType(info.kind)) return Status::corrupt("a column has another type than the schema says");
    if (info.kind == Kind::Sum) return sum(self, block, index, out);
    std::string_view in;
    TS_TRY(reader.impl_->readColumn(block, *e, buffer, in));
    if (e->flags & (kOwnValidity | kSharedValidity)) {
      out.has_nulls_ = true;
      if (e->flags & kOwnValidity) {
        out.valid_.resize(block.rows);
        if (!decoder.planes(in, block.rows, out.valid_.data())) return Status::corrupt("a NULL map does not decode");
      } else {
        TS_TRY(validityOf(block, e->validity_index, out.valid_));
      }
      size_t ones = 0;
      uint8_t any = 0;
      for (uint8_t b : out.valid_) {
        ones += b;
        any |= b;
      }
      if (ones != e->values || any > 1) return Status::corrupt("a NULL map does not match its column");
    } else if (e->values != block.rows) {
      return Status::corrupt("a column has too few values");
    }
    switch (info.kind) {
      case Kind::Text:
        return text(block, *e, in, out);
      case Kind::Type:
        return values<uint8_t>(block, *e, in, out, keep_constant);
      case Kind::Int32:
      case Kind::Str:
      case Kind::Launch:
        return values<uint32_t>(block, *e, in, out, keep_constant);
      default:
        return values<uint64_t>(block, *e, in, out, keep_constant);
    }
  }

  /// ts and dur stand before their sum in every table that has one.
  Status sum(BlockDecoder& self, const Block& block, int index, ColumnData& out) {
    if (!other) other = std::make_unique<ColumnData>();
    TS_TRY(column(self, block, index - 2, out, false));
    TS_TRY(column(self, block, index - 1, *other, false));
    out.constant_ = out.constant_ && other->constant_ && !out.has_nulls_ && !other->has_nulls_;
    auto* v = out.values_.data();
    const auto* d = other->values_.data();
    for (size_t i = 0; i < block.rows; ++i) v[i] += d[i];
    if (!other->has_nulls_) return {};
    if (!out.has_nulls_) out.valid_.assign(block.rows, 1);
    out.has_nulls_ = true;
    for (size_t i = 0; i < block.rows; ++i)
      if (!(out.valid_[i] &= other->valid_[i])) v[i] = 0;
    return {};
  }
};

BlockDecoder::BlockDecoder(const Reader& reader) : impl_(std::make_unique<Impl>(reader)) {}
BlockDecoder::~BlockDecoder() = default;

Status BlockDecoder::decode(const Block& block, int column, ColumnData& out, bool keep_constant) {
  Status s = impl_->column(*this, block, column, out, keep_constant);
  if (!s) impl_->reader.addDamage(block.offset, block.size, s.message());
  return s;
}

int64_t slotAt(const ColumnData& data, Kind kind, size_t row) {
  if (!data.valid(row)) return kNull;
  switch (kind) {
    case Kind::Type:
      return data.data<uint8_t>()[row];
    case Kind::Int32:
      return static_cast<int32_t>(data.data<uint32_t>()[row]);
    case Kind::Str:
    case Kind::Launch:
      return data.data<uint32_t>()[row];
    case Kind::Text:
      return static_cast<int64_t>(row);
    default:
      return data.data<int64_t>()[row];
  }
}

}  // namespace tracesmith::trace
