#include "query/block_columns.hpp"

#include <algorithm>

#include "query/column_loops.hpp"
#include "trace/layout.hpp"

namespace tracesmith::query {
namespace {

using trace::Kind;

void repairTypes(DecodedColumn& c, size_t rows) {
  const uint8_t* types = c.data->data<uint8_t>();
  const size_t n = c.constant ? 1 : rows;
  c.types.clear();
  if (highestByte(types, n) < trace::kEventTypes) return;
  c.types.assign(types, types + n);
  for (uint8_t& t : c.types) t = std::min<uint8_t>(t, trace::kEventTypes - 1);
}

}  // namespace

BlockColumns::BlockColumns(const ScanPlan& plan) : plan_(plan), columns_(plan.table->columns.size()) {}

BlockColumns::~BlockColumns() {
  for (auto& c : columns_)
    if (c && c->data) plan_.traces->giveBack(std::move(c->data));
  if (decoder_) plan_.traces->giveBack(decoder_source_, std::move(decoder_));
}

void BlockColumns::start(const TraceSet::BlockRef& ref) {
  ref_ = ref;
  decoded_ = false;
  for (auto& c : columns_)
    if (c) c->loaded = false;
  if (decoder_source_ == ref.source) return;
  if (decoder_) plan_.traces->giveBack(decoder_source_, std::move(decoder_));
  decoder_ = plan_.traces->borrowDecoder(ref.source);
  decoder_source_ = ref.source;
}

DecodedColumn* BlockColumns::get(int column) {
  std::unique_ptr<DecodedColumn>& c = columns_[static_cast<size_t>(column)];
  if (!c) c = std::make_unique<DecodedColumn>();
  if (!c->loaded) c->loaded = decode(column, *c);
  return c->loaded ? c.get() : nullptr;
}

bool BlockColumns::decode(int column, DecodedColumn& out) {
  const Kind kind = plan_.table->columns[static_cast<size_t>(column)].kind;
  out.bits.clear();
  out.positions = nullptr;
  out.constant = false;
  if (kind == Kind::Sum) {
    const DecodedColumn *a = get(column - 2), *b = get(column - 1);
    if (!a || !b) return false;
    out.all_null = a->all_null || b->all_null;
    if (out.all_null || (a->bits.empty() && b->bits.empty())) return true;
    out.bits = a->bits.empty() ? b->bits : a->bits;
    if (!a->bits.empty() && !b->bits.empty())
      for (size_t i = 0; i < out.bits.size(); ++i) out.bits[i] &= b->bits[i];
    return true;
  }
  const trace::ColumnEntry* entry = block().find(column);
  out.all_null = !entry;
  if (!entry) return true;
  if (!out.data) out.data = plan_.traces->borrowColumn();
  decoded_ = true;
  out.constant = entry->encoding == trace::Encoding::kConstant && entry->values == block().rows;
  if (!decoder_->decode(block(), column, *out.data, out.constant)) return false;
  if (out.data->hasNulls()) {
    out.bits.resize((block().rows + 63) / 64);
    packBits(out.data->validity(), block().rows, out.bits.data());
  }
  if (kind == Kind::Type) repairTypes(out, block().rows);
  return true;
}

}  // namespace tracesmith::query
