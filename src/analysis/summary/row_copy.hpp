// Rows of one trace into another, whose strings have other numbers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trace/rows.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::analysis {

/// Strings of rows are numbers of `names`.
class RowCopy {
 public:
  RowCopy(const trace::NameNumbers& names, trace::Writer& to)
      : names_(names), to_(to), out_(to.appender()), ids_(names.size(), trace::kNull) {}

  /// The row a cursor is at.
  Status put(const trace::TableInfo& table, const trace::SlotCursor& at) { return put(table, at.slots(), &at); }
  /// A changed copy of it.
  template <typename Row>
  Status put(const Row& row, const trace::SlotCursor& at) {
    return put(trace::tableOf<Row>(), reinterpret_cast<const int64_t*>(&row), &at);
  }
  /// A row without texts, or with one.
  template <typename Row>
  Status put(const Row& row, int text_column = -1, std::string_view text = {}) {
    return put(trace::tableOf<Row>(), reinterpret_cast<const int64_t*>(&row), nullptr, text_column, text);
  }
  /// For Str slots of rows that are not copies.
  int64_t name(const std::string& text);
  Status flush() { return out_->flush(); }

 private:
  Status put(const trace::TableInfo& table, const int64_t* slots, const trace::SlotCursor* texts, int text_column = -1,
             std::string_view text = {});

  const trace::NameNumbers& names_;
  trace::Writer& to_;
  std::unique_ptr<trace::Appender> out_;
  std::vector<int64_t> ids_;              // by name, and by those of name()
  std::map<std::string, int64_t> added_;  // by name()
  std::vector<int64_t> slots_;
};

}  // namespace tracesmith::analysis
