// Reads files of SQLite with the system's library, which is loaded when such a file is imported.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::trace {

/// One thread. Opened for reading only.
class SqliteFile {
 public:
  static Result<std::unique_ptr<SqliteFile>> open(const std::string& path);
  ~SqliteFile();
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  /// Columns of a table; empty: there is none.
  std::vector<std::string> columns(const std::string& table);
  std::vector<std::string> tables();
  /// Rows of a table; 0 where it cannot be counted.
  uint64_t count(const std::string& table);

  /// The rows of a statement.
  class Rows {
   public:
    ~Rows();
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;
    bool next();
    const Status& status() const { return status_; }
    /// kNull for NULL and what is no integer.
    int64_t integer(int column) const;
    /// Empty for NULL and what is no text. Until next().
    std::string_view text(int column) const;

   private:
    friend class SqliteFile;
    Rows(SqliteFile& file, const std::string& sql);
    SqliteFile& file_;
    void* statement_ = nullptr;
    Status status_;
  };
  /// Columns of a table in this order, NULL for those that it does not have.
  Rows rows(const std::string& table, const std::vector<std::string>& wanted);

 private:
  SqliteFile() = default;
  std::string path_;
  void* handle_ = nullptr;
};

}  // namespace tracesmith::trace
