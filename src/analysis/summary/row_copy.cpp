#include "analysis/summary/row_copy.hpp"

namespace tracesmith::analysis {

using namespace trace;

int64_t RowCopy::name(const std::string& text) {
  auto [it, fresh] = added_.try_emplace(text, static_cast<int64_t>(ids_.size()));
  if (fresh) ids_.push_back(to_.string(text));
  return it->second;
}

Status RowCopy::put(const TableInfo& table, const int64_t* slots, const SlotCursor* texts, int text_column,
                    std::string_view text) {
  slots_.assign(slots, slots + table.columns.size());
  for (size_t c = 0; c < slots_.size(); ++c) {
    int64_t& slot = slots_[c];
    const Kind kind = table.columns[c].kind;
    if (kind == Kind::Text) {
      const std::string_view own = static_cast<int>(c) == text_column ? text
                                   : texts                            ? texts->text(static_cast<int>(c))
                                                                      : std::string_view();
      slot = own.data() ? out_->text(own) : kNull;
    } else if ((kind == Kind::Str || kind == Kind::Launch) && slot != kNull) {
      int64_t& id = ids_[static_cast<size_t>(slot)];
      if (id == kNull) id = to_.string(names_.text(static_cast<uint32_t>(slot)));
      slot = id;
    }
  }
  return out_->appendSlots(table, slots_.data());
}

}  // namespace tracesmith::analysis
