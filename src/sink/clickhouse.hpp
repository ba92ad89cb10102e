// ClickHouse over HTTP: tables from the one declaration of ours, rows as they are stored.
//
// Each table is `tracesmith.<table>_rows` on every server, with the columns of schema.def and where each row comes
// from: segment (_node, _epoch, _segment), offset of its block, number in the block. `tracesmith.<table>` is a view of
// all servers with the columns that `cluster query` has.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sink/http.hpp"
#include "trace/rows.hpp"

namespace tracesmith::sink {

/// One server. One thread asks; cancel() may come from any other.
class ClickHouse {
 public:
  /// `url`: http(s)://HOST[:PORT], with ?native=PORT where other servers reach it at another port than 9000.
  static Result<std::unique_ptr<ClickHouse>> open(const std::string& url, const Options& options);

  const std::string& address() const { return http_->address(); }
  const std::string& native() const { return native_; }  ///< HOST:PORT for other servers
  /// A statement that reads or defines something.
  Result<std::string> ask(const std::string& sql);
  /// A statement of a user in the database tracesmith, which can only read. kInvalid: it is wrong.
  Result<std::string> read(const std::string& sql);
  /// Makes the tables and their columns, where they are not there yet, and the views of all servers (`natives`).
  Status prepare(const std::vector<std::string>& natives);
  Status insert(const trace::TableInfo& table, const std::string& rows);
  /// Whether an insertion of ours, whose answer was lost, is still at work there.
  Result<bool> inserting();
  void cancel() { http_->cancel(); }

 private:
  Status define(const std::string& sql);
  std::unique_ptr<HttpPoster> http_;
  std::string native_;
  std::string id_;  // what the ids of our insertions begin with
};

/// A comma between each.
std::vector<std::string> splitUrls(const std::string& urls);

/// What rows are of.
struct RowOrigin {
  std::string node, epoch;
  uint32_t segment = 0;
  uint16_t day = 0;  ///< of its creation, since 1970: the partition
};
std::string originCondition(const RowOrigin& origin);

/// Appends the rows of the loaded block from the `first` on, in the format RowBinary.
void appendRows(std::string& out, const RowOrigin& origin, const trace::BlockRows& rows, uint32_t first);

}  // namespace tracesmith::sink
