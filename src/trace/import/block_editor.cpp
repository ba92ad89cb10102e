#include "trace/import/block_editor.hpp"

#include <algorithm>
#include <cstring>

#include "trace/encoding.hpp"

namespace tracesmith::trace {

BlockEditor::BlockEditor(const TableInfo& table, std::string block) : table_(&table) {
  std::memcpy(&header_, block.data(), sizeof header_);
  entries_.resize(header_.columns);
  if (header_.columns > 0) std::memcpy(entries_.data(), block.data() + sizeof header_, header_.directory_size);
  payload_ = std::move(block);
  payload_.erase(0, sizeof header_ + header_.directory_size);
}

const ColumnEntry* BlockEditor::entryOf(int column) const {
  uint16_t id = table_->columns[static_cast<size_t>(column)].id;
  for (const ColumnEntry& e : entries_)
    if (e.column == id) return &e;
  return nullptr;
}

std::vector<int64_t> BlockEditor::read(Decoder& decoder, int column) const {
  std::vector<int64_t> out(rows(), kNull);
  const ColumnEntry* e = entryOf(column);
  if (!e) return out;
  auto bytes = [&](const ColumnEntry& entry) { return std::string_view(payload_).substr(entry.offset, entry.size); };
  std::string_view in = bytes(*e);
  std::vector<uint8_t> valid(rows(), 1);
  if (e->flags & kOwnValidity) {
    if (!decoder.planes(in, valid.size(), valid.data())) return out;
  } else if (e->flags & kSharedValidity) {
    std::string_view owner = bytes(entries_[e->validity_index]);
    if (!decoder.planes(owner, valid.size(), valid.data())) return out;
  }
  std::vector<uint64_t> dense(e->values, static_cast<uint64_t>(e->base));
  if (e->encoding == Encoding::kPlanes && (e->flags & kDelta)) {
    if (!decoder.planes(in, dense.size() - 1, dense.data() + 1)) return out;
    undelta(reinterpret_cast<int64_t*>(dense.data() + 1), dense.size() - 1, e->base, e->flags & kZigzag);
  } else if (e->encoding == Encoding::kPlanes) {
    if (!decoder.planes(in, dense.size(), dense.data())) return out;
    for (uint64_t& v : dense) v += static_cast<uint64_t>(e->base);
  }
  for (size_t i = 0, next = 0; i < out.size() && next < dense.size(); ++i)
    if (valid[i]) out[i] = static_cast<int64_t>(dense[next++]);
  return out;
}

void BlockEditor::insert(ColumnEntry entry, std::string_view bytes) {
  entry.offset = static_cast<uint32_t>(payload_.size());
  entry.size = static_cast<uint32_t>(bytes.size());
  entry.checksum = static_cast<uint32_t>(hash64(bytes.data(), bytes.size()));
  payload_.append(bytes);
  auto at =
      std::find_if(entries_.begin(), entries_.end(), [&](const ColumnEntry& e) { return e.column > entry.column; });
  auto index = static_cast<uint16_t>(at - entries_.begin());
  for (ColumnEntry& e : entries_)
    if ((e.flags & kSharedValidity) && e.validity_index >= index) ++e.validity_index;
  entries_.insert(at, entry);
}

void BlockEditor::addConstant(int column, int64_t value) {
  if (has(column) || rows() == 0 || value == kNull) return;
  const ColumnInfo& info = table_->columns[static_cast<size_t>(column)];
  ColumnEntry entry{};
  entry.column = info.id;
  entry.type = diskType(info.kind);
  entry.encoding = Encoding::kConstant;
  entry.base = entry.zone_low = entry.zone_high = value;
  entry.values = rows();
  insert(entry, {});
}

void BlockEditor::add(Encoder& encoder, int column, const std::vector<int64_t>& values) {
  std::vector<uint64_t> codes;
  std::vector<uint8_t> valid(values.size(), 0);
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == kNull) continue;
    valid[i] = 1;
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
    codes.push_back(static_cast<uint64_t>(values[i]));
  }
  if (codes.empty() || has(column)) return;
  if (low == high && codes.size() == rows()) return addConstant(column, low);
  const ColumnInfo& info = table_->columns[static_cast<size_t>(column)];
  ColumnEntry entry{};
  entry.column = info.id;
  entry.type = diskType(info.kind);
  entry.base = entry.zone_low = low;
  entry.zone_high = high;
  entry.values = static_cast<uint32_t>(codes.size());
  std::string bytes;
  if (codes.size() < rows()) {
    entry.flags |= kOwnValidity;
    encoder.bytePlane(valid, bytes);
  }
  entry.encoding = low == high ? Encoding::kConstant : Encoding::kPlanes;
  for (uint64_t& c : codes) c -= static_cast<uint64_t>(low);
  if (entry.encoding == Encoding::kPlanes) encoder.planes(codes, bytes);
  insert(entry, bytes);
}

bool BlockEditor::shift(int column, int64_t ns) {
  const uint16_t id = table_->columns[static_cast<size_t>(column)].id;
  auto e = std::find_if(entries_.begin(), entries_.end(), [&](const ColumnEntry& entry) { return entry.column == id; });
  if (e == entries_.end() || e->values == 0) return true;
  // All values lie between the zones, and are kept as differences to the base or to each other.
  int64_t low, high;
  if (__builtin_add_overflow(e->zone_low, ns, &low) || __builtin_add_overflow(e->zone_high, ns, &high)) return false;
  e->zone_low = low;
  e->zone_high = high;
  // A sum has the columns it is of there.
  if (e->encoding != Encoding::kSum)
    e->base = static_cast<int64_t>(static_cast<uint64_t>(e->base) + static_cast<uint64_t>(ns));
  return true;
}

std::string BlockEditor::take() {
  header_.columns = static_cast<uint16_t>(entries_.size());
  header_.directory_size = static_cast<uint32_t>(entries_.size() * sizeof(ColumnEntry));
  size_t size = sizeof header_ + header_.directory_size + payload_.size();
  header_.block_size = static_cast<uint32_t>((size + 7) / 8 * 8);
  std::string block;
  block.reserve(header_.block_size);
  block.append(reinterpret_cast<const char*>(&header_), sizeof header_);
  block.append(reinterpret_cast<const char*>(entries_.data()), header_.directory_size);
  block.append(payload_);
  block.resize(header_.block_size, '\0');
  return block;
}

}  // namespace tracesmith::trace
