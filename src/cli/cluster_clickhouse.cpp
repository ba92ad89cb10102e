// tracesmith cluster query --store clickhouse: the SQL goes to the ClickHouse that the master fills.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/cluster.hpp"
#include "cli/libraries.hpp"
#include "cli/outcome.hpp"

namespace tracesmith::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// What ClickHouse's format TabSeparatedWithNames says, with `null` for NULL.
Rows parseRows(const std::string& text, const std::string& null) {
  Rows rows;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    std::vector<std::string>& row = rows.emplace_back(1);
    for (size_t i = from; i < end; ++i) {
      if (text[i] == '\t') {
        row.emplace_back();
      } else if (text[i] == '\\' && i + 1 < end) {
        const char c = text[++i];
        if (c == 'N')
          row.back() += null;
        else
          row.back() += c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c == 'b' ? '\b' : c == 'f' ? '\f' : c;
      } else {
        row.back() += text[i];
      }
    }
    from = end + 1;
  }
  return rows;
}

std::string csv(const Rows& rows) {
  std::string out;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) out += ',';
      if (row[i].find_first_of(",\"\n\r") == std::string::npos) {
        out += row[i];
        continue;
      }
      out += '"';
      for (char c : row[i]) out += c == '"' ? std::string("\"\"") : std::string(1, c);
      out += '"';
    }
    out += '\n';
  }
  return out;
}

/// Objects in lines as one array.
std::string jsonArray(std::string lines) {
  while (lines.ends_with('\n')) lines.pop_back();
  std::string out = "[";
  for (char c : lines) out += c == '\n' ? std::string(",\n") : std::string(1, c);
  return out + "]\n";
}

Result<std::string> sqlOf(const SessionQuery& q) {
  if (!q.sql.empty()) return q.sql;
  std::ifstream file;
  if (!q.sql_file.empty() && q.sql_file != "-") {
    file.open(q.sql_file);
    if (!file) return Status::io("cannot read " + q.sql_file);
  }
  std::istream& in = file.is_open() ? static_cast<std::istream&>(file) : std::cin;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// Of the servers that the master fills, the first that answers.
Result<std::string> ask(const SessionQuery& q, const std::string& sql) {
  Result<std::unique_ptr<cluster::Client>> client = q.connect();
  if (!client) return client.status();
  Result<cluster::ClusterStatus> status = (*client)->status();
  if (!status) return status.status();
  Result<cluster::Library*> library = loadCluster();
  if (!library) return library.status();
  Status last = Status::notFound("the master does not fill a ClickHouse: start it with --clickhouse");
  for (const model::ExportStatus& e : status->exports) {
    if (e.sink != "clickhouse") continue;
    Result<std::string> answer = (*library)->askClickHouse(e.address, sql);
    if (answer) {
      if (e.waiting_bytes > 0)
        warn(e.address + " does not have all rows yet: " + humanBytes(e.waiting_bytes) + " wait");
      return answer;
    }
    last = answer.status();
    if (last.code() == Code::kInvalid) break;  // the statement is wrong; the next server would say the same
  }
  return last;
}

}  // namespace

int queryClickHouse(const SessionQuery& q) {
  const std::string format = q.json                        ? "json"
                             : !q.format.empty()           ? q.format
                             : q.output.ends_with(".csv")  ? "csv"
                             : q.output.ends_with(".json") ? "json"
                                                           : "table";
  if (format != "table" && format != "csv" && format != "json")
    return usage("cluster query", "with --store clickhouse the format is table, csv or json, not '" + format + "'");
  Result<std::string> sql = sqlOf(q);
  if (!sql) return fail(sql.status());
  while (!sql->empty() && std::string_view("; \n\t\r").find(sql->back()) != std::string_view::npos) sql->pop_back();
  if (sql->empty()) return usage("cluster query", "no SQL was given");
  Result<std::string> answer =
      ask(q, *sql + (format == "json" ? "\nFORMAT JSONEachRow" : "\nFORMAT TabSeparatedWithNames"));
  if (!answer) return fail(answer.status());
  const std::string text = format == "json"  ? jsonArray(std::move(*answer))
                           : format == "csv" ? csv(parseRows(*answer, ""))
                                             : alignTable(parseRows(*answer, "NULL"));
  if (q.output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }
  const Status written = [&]() -> Status {
    Result<OutputFile> out = OutputFile::create(q.output);
    if (!out) return out.status();
    TS_TRY(out->write(text));
    return out->commit();
  }();
  return written ? 0 : fail(written);
}

}  // namespace tracesmith::cli
