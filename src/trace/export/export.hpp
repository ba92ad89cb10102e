// Writes traces in the formats of other tools. All of them stream: memory does not grow with the length of the trace.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

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

// The functions of formats.def.
#define WHOLE(name, function, endings, about) Status function(Export& e);
#define TABLE(name, function, endings, about) Status function(Export& e, const TableInfo& table);
#include "trace/export/formats.def"

/// A format: it has all tables or one, so that one of the functions is there.
struct ExportFormat {
  const char* name;
  const char* endings;  ///< of file names, separated by blanks
  const char* about;
  Status (*whole)(Export& e);
  Status (*table)(Export& e, const TableInfo& table);
};
std::span<const ExportFormat> exportFormats();
/// Whether the file's name has one of these endings.
bool hasEnding(std::string_view file, std::string_view endings);

/// A JSON object of a row; NULL is null.
void appendJsonRow(std::string& out, const TableInfo& table, const Row& row);

}  // namespace tracesmith::trace
