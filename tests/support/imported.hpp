// Imports text for tests, and gives the rows of a trace as text: `table(path, "events")` is one map a row, without its
// NULLs.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "model/kernel_collective.hpp"
#include "support/process.hpp"

namespace tracesmith::test {

using Row = std::map<std::string, std::string>;

/// All rows of a table in file order; a column that is NULL is missing. Types as their names, reals as %g.
/// Throws std::runtime_error where the trace cannot be read whole.
std::vector<Row> table(const std::string& path, const std::string& name);

/// Value of a column, or "NULL".
std::string at(const Row& row, const std::string& column);
/// The one row whose column has this value; throws if there is not exactly one.
Row only(const std::vector<Row>& rows, const std::string& column, const std::string& value);

/// A folder in which inputs are written and imported.
struct Imported {
  TempDir dir;
  trace::ImportOptions options;
  Result<trace::ImportReport> report = Status::invalid("not run");

  /// Imports these bytes as one file; the result is in report, rows come from rows().
  explicit Imported(const std::string& bytes, trace::ImportOptions given = {}) : options(std::move(given)) {
    writeFile(dir / "in.json", bytes);
    options.paths = {dir / "in.json"};
    options.spill_path = dir / "out.sbt";
    if (!options.collective_of) options.collective_of = model::collectiveOfEvent;
    run();
  }
  void run() {
    trace::WriterOptions writer_options;
    writer_options.whole_or_absent = true;
    auto writer = trace::Writer::create(dir / "out.sbt", writer_options);
    report = trace::importTraces(options, **writer);
    if (report) {
      Status closed = (*writer)->close();
      EXPECT_TRUE(closed) << closed.message();
    }
  }
  std::vector<Row> rows(const std::string& name) const { return table(dir / "out.sbt", name); }
  std::string error() const { return report ? "" : report.status().message(); }
  uint64_t lost(const std::string& cause) const {
    auto it = report->losses.entries().find(cause);
    return it == report->losses.entries().end() ? 0 : it->second.count;
  }
};

/// `[events]`
inline std::string asArray(const std::string& events) { return "[" + events + "]"; }
/// `{"traceEvents": [events], more}`
inline std::string asObject(const std::string& events, const std::string& more = "\"displayTimeUnit\": \"ms\"") {
  return "{\"traceEvents\": [" + events + "], " + more + "}";
}

}  // namespace tracesmith::test
