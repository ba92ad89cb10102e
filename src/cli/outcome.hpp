// How commands end: wrong usage, damage in the file, tables that do not exist.
#pragma once

#include <string>

#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cli {

/// Prints "tracesmith: <message> (see tracesmith <command> --help)" and returns exit code 2.
int usage(const std::string& command, const std::string& message);
/// Warns of what could not be read; returns exit code 0, or 1 if there was something and `strict`.
int finish(const trace::Reader& reader, bool strict);
/// "there is no table 'x'; tables are events, …"
std::string unknownTable(const std::string& name);

}  // namespace tracesmith::cli
