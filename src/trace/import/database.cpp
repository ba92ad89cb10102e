#include "trace/import/database.hpp"

#include <sqlite3.h>

namespace tracesmith::trace {

Rows::~Rows() { sqlite3_finalize(statement_); }

Rows::Rows(Rows&& other) noexcept
    : statement_(other.statement_), path_(std::move(other.path_)), status_(std::move(other.status_)) {
  other.statement_ = nullptr;
}

bool Rows::next() {
  if (!statement_) return false;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE)
    status_ = Status::corrupt(path_ + " cannot be read: " + sqlite3_errmsg(sqlite3_db_handle(statement_)));
  sqlite3_finalize(statement_);
  statement_ = nullptr;
  return false;
}

bool Rows::has(int column) const { return sqlite3_column_type(statement_, column) != SQLITE_NULL; }
int64_t Rows::number(int column) const { return sqlite3_column_int64(statement_, column); }
double Rows::real(int column) const { return sqlite3_column_double(statement_, column); }

std::string_view Rows::text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_, column);
  if (!text) return {};
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

void Database::Close::operator()(sqlite3* database) const { sqlite3_close(database); }

Result<Database> Database::open(const std::string& path) {
  Database d;
  d.path_ = path;
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr);
  d.database_.reset(opened);
  if (code != SQLITE_OK) return Status::io("cannot open " + path + ": " + sqlite3_errstr(code));
  sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  Result<Rows> tables = d.ask("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'");
  if (!tables) return tables.status();
  while (tables->next()) d.tables_[std::string(tables->text(0))];
  TS_TRY(tables->status());
  for (auto& [table, columns] : d.tables_) {
    Result<Rows> found = d.ask("PRAGMA table_info(" + identifier(table) + ")");
    if (!found) return found.status();
    while (found->next()) columns.emplace(found->text(1));
    TS_TRY(found->status());
  }
  return d;
}

bool Database::has(const std::string& table, const std::string& column) const {
  auto it = tables_.find(table);
  return it != tables_.end() && it->second.contains(column);
}

std::string Database::column(const std::string& table, const std::string& name) const {
  return has(table, name) ? identifier(name) : "NULL";
}

Result<Rows> Database::ask(const std::string& sql) const {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &statement, nullptr) != SQLITE_OK)
    return Status::corrupt(path_ + " cannot be read: " + sqlite3_errmsg(database_.get()));
  return Rows(statement, path_);
}

std::optional<int64_t> Database::number(const std::string& sql) const {
  Result<Rows> rows = ask(sql);
  if (!rows || !rows->next() || !rows->has(0)) return std::nullopt;
  return rows->number(0);
}

std::string identifier(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace tracesmith::trace
