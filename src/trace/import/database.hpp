// A SQLite database that another tool wrote, read only. It may be damaged or hostile: only its tables are looked at,
// and nothing in it is run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "tracesmith/common/status.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace tracesmith::trace {

/// Rows of one statement, from the first to the last.
class Rows {
 public:
  ~Rows();
  Rows(Rows&&) noexcept;
  Rows(const Rows&) = delete;

  /// False: there are no more, or the database is damaged (see status).
  bool next();
  const Status& status() const { return status_; }

  bool has(int column) const;  ///< it is not NULL
  int64_t number(int column) const;
  double real(int column) const;
  std::string_view text(int column) const;  ///< valid until next()

 private:
  friend class Database;
  Rows(sqlite3_stmt* statement, std::string path) : statement_(statement), path_(std::move(path)) {}
  sqlite3_stmt* statement_;
  std::string path_;
  Status status_;
};

class Database {
 public:
  static Result<Database> open(const std::string& path);

  const std::string& path() const { return path_; }
  bool has(const std::string& table) const { return tables_.contains(table); }
  bool has(const std::string& table, const std::string& column) const;
  const std::map<std::string, std::set<std::string>>& tables() const { return tables_; }
  /// The column, quoted; the literal NULL if the table has none of that name: exports of other versions may lack it.
  std::string column(const std::string& table, const std::string& name) const;

  Result<Rows> ask(const std::string& sql) const;
  /// The one number of a statement; nothing: it has none.
  std::optional<int64_t> number(const std::string& sql) const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::string path_;
  std::unique_ptr<sqlite3, Close> database_;
  std::map<std::string, std::set<std::string>> tables_;  // and their columns
};

/// `name`, as an identifier of SQL.
std::string identifier(std::string_view name);

}  // namespace tracesmith::trace
