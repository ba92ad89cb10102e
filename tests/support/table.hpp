// Rows of a trace by column name: for tests that look at every row.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tracesmith::test {

/// One row. A column that is NULL is not there.
class Row {
 public:
  bool null(const std::string& column) const { return !numbers_.contains(column) && !texts_.contains(column); }
  /// kNull if it is NULL.
  int64_t i(const std::string& column) const;
  double d(const std::string& column) const;
  /// "NULL" if it is NULL.
  std::string s(const std::string& column) const;

 private:
  friend std::vector<Row> rows(const std::string&, const std::string&);
  std::map<std::string, int64_t> numbers_;
  std::map<std::string, std::string> texts_;
};

/// All rows of a table, in file order. Throws if the trace cannot be read or is damaged.
std::vector<Row> rows(const std::string& trace, const std::string& table);
/// Those whose column has this text.
std::vector<Row> rows(const std::string& trace, const std::string& table, const std::string& column,
                      const std::string& text);
/// Losses of a trace by cause.
std::map<std::string, int64_t> losses(const std::string& trace);

}  // namespace tracesmith::test
