// The trace that a user names on the command line: an SBT file, or what another tool wrote.
#pragma once

#include <memory>
#include <string>

#include "cli/options.hpp"
#include "trace/import/import.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cli {

/// Declares the argument `name`: a trace, for traceFile() or openTrace(). `purpose`: "Trace to analyze".
Option addTraceFile(Command& command, const char* name, std::string& file, const char* purpose);

struct Imported {
  trace::ImportReport report;
  uint64_t bytes = 0;  ///< of the trace
  double seconds = 0;
};
/// Imports into `output`, which is whole or absent. Shows progress. What `options` does not say is filled in.
Result<Imported> importInto(trace::ImportOptions options, const std::string& output);

/// Where the trace `path` is. JSON of PyTorch or Chrome (also .gz), older SBT files and folders of them are imported on
/// the way. What comes of it is kept in the user's cache, so that the next command finds it; a note says so.
Result<std::string> traceFile(const std::string& path);
/// The same, opened.
Result<std::unique_ptr<trace::Reader>> openTrace(const std::string& path);

}  // namespace tracesmith::cli
