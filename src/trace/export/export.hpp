// Writes traces in the formats of other tools. All of them stream: memory does not grow with the length of the trace.
#pragma once

#include <cstdint>

#include "base/file.hpp"
#include "base/progress.hpp"
#include "trace/rows.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::trace {

/// One export under way: where from, what, where to.
struct Export {
  const Reader& reader;
  Selection selection;
  BufferedWriter& out;
  Progress& progress;

  uint64_t rows = 0;      ///< written so far
  uint64_t left_out = 0;  ///< rows the format cannot hold (a time before 0, no time at all)
};

/// RFC 4180: a heading, then all columns of the selected rows of one table. NULL is an empty field, an empty string is
/// "".
Status exportCsv(Export& e, const TableInfo& table);
/// A JSON object for each selected row of one table; NULL is null.
Status exportJsonLines(Export& e, const TableInfo& table);
/// One such object.
void appendJsonRow(std::string& out, const TableInfo& table, const Row& row);
/// Chrome trace JSON as Kineto writes it.
Status exportChrome(Export& e);
/// Perfetto's own format: a protobuf of type perfetto.protos.Trace.
Status exportPerfetto(Export& e);

}  // namespace tracesmith::trace
