#include "trace/import/sqlite.hpp"

#include <algorithm>

#include "base/library.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith::trace {
namespace {

constexpr int kReadOnly = 1, kNoMutex = 0x8000, kRow = 100, kDone = 101, kInteger = 1, kText = 3;

/// SQLite's functions that are used.
struct Functions {
  int (*open_v2)(const char*, void**, int, const char*) = nullptr;
  int (*close_v2)(void*) = nullptr;
  int (*prepare_v2)(void*, const char*, int, void**, const char**) = nullptr;
  int (*step)(void*) = nullptr;
  int (*finalize)(void*) = nullptr;
  int (*column_type)(void*, int) = nullptr;
  int64_t (*column_int64)(void*, int) = nullptr;
  const unsigned char* (*column_text)(void*, int) = nullptr;
  int (*column_bytes)(void*, int) = nullptr;
  const char* (*errmsg)(void*) = nullptr;

  static const Result<Functions>& get() {
    static const Result<Functions> functions = load();
    return functions;
  }

 private:
  static Result<Functions> load() {
    const Result<SharedLibrary> library = SharedLibrary::load({"libsqlite3.so.0", "libsqlite3.so"});
    if (!library)
      return Status::unsupported(
          "a file of SQLite needs libsqlite3.so.0, which is not installed: install libsqlite3-0");
    Functions f;
    if (!library->find(f.open_v2, "sqlite3_open_v2") || !library->find(f.close_v2, "sqlite3_close_v2") ||
        !library->find(f.prepare_v2, "sqlite3_prepare_v2") || !library->find(f.step, "sqlite3_step") ||
        !library->find(f.finalize, "sqlite3_finalize") || !library->find(f.column_type, "sqlite3_column_type") ||
        !library->find(f.column_int64, "sqlite3_column_int64") ||
        !library->find(f.column_text, "sqlite3_column_text") ||
        !library->find(f.column_bytes, "sqlite3_column_bytes") || !library->find(f.errmsg, "sqlite3_errmsg"))
      return Status::unsupported("libsqlite3.so.0 is too old");
    return f;
  }
};

std::string quoted(const std::string& name) {
  std::string out = "\"";
  for (char c : name) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

Result<std::unique_ptr<SqliteFile>> SqliteFile::open(const std::string& path) {
  const Result<Functions>& f = Functions::get();
  if (!f) return f.status();
  std::unique_ptr<SqliteFile> file(new SqliteFile());
  file->path_ = path;
  if (f->open_v2(path.c_str(), &file->handle_, kReadOnly | kNoMutex, nullptr) != 0)
    return Status::io("cannot open " + path + ": " + (file->handle_ ? f->errmsg(file->handle_) : "no memory"));
  return file;
}

SqliteFile::~SqliteFile() {
  if (handle_) Functions::get()->close_v2(handle_);
}

SqliteFile::Rows::Rows(SqliteFile& file, const std::string& sql) : file_(file) {
  const Result<Functions>& f = Functions::get();
  if (f->prepare_v2(file.handle_, sql.c_str(), -1, &statement_, nullptr) != 0)
    status_ = Status::corrupt(file.path_ + ": " + f->errmsg(file.handle_));
}

SqliteFile::Rows::~Rows() {
  if (statement_) Functions::get()->finalize(statement_);
}

bool SqliteFile::Rows::next() {
  if (!status_ || !statement_) return false;
  const Result<Functions>& f = Functions::get();
  const int code = f->step(statement_);
  if (code == kRow) return true;
  if (code != kDone) status_ = Status::corrupt(file_.path_ + ": " + f->errmsg(file_.handle_));
  return false;
}

int64_t SqliteFile::Rows::integer(int column) const {
  const Result<Functions>& f = Functions::get();
  return f->column_type(statement_, column) == kInteger ? f->column_int64(statement_, column) : kNull;
}

std::string_view SqliteFile::Rows::text(int column) const {
  const Result<Functions>& f = Functions::get();
  if (f->column_type(statement_, column) != kText) return {};
  const auto* text = reinterpret_cast<const char*>(f->column_text(statement_, column));
  return text ? std::string_view(text, static_cast<size_t>(f->column_bytes(statement_, column))) : std::string_view();
}

std::vector<std::string> SqliteFile::tables() {
  std::vector<std::string> names;
  Rows rows(*this, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name");
  while (rows.next()) names.emplace_back(rows.text(0));
  return names;
}

std::vector<std::string> SqliteFile::columns(const std::string& table) {
  std::vector<std::string> names;
  Rows rows(*this, "PRAGMA table_info(" + quoted(table) + ")");
  while (rows.next()) names.emplace_back(rows.text(1));
  return names;
}

uint64_t SqliteFile::count(const std::string& table) {
  Rows rows(*this, "SELECT count(*) FROM " + quoted(table));
  return rows.next() && rows.integer(0) > 0 ? static_cast<uint64_t>(rows.integer(0)) : 0;
}

SqliteFile::Rows SqliteFile::rows(const std::string& table, const std::vector<std::string>& wanted) {
  const std::vector<std::string> there = columns(table);
  std::string sql;
  for (const std::string& name : wanted) {
    const bool known = std::find(there.begin(), there.end(), name) != there.end();
    sql += (sql.empty() ? "SELECT " : ", ") + (known ? quoted(name) : std::string("NULL"));
  }
  // A table that is not there has no rows.
  return Rows(*this, there.empty() ? sql + " WHERE 0" : sql + " FROM " + quoted(table));
}

}  // namespace tracesmith::trace
