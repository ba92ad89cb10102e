// The prompt of `tracesmith query FILE`: edits lines, remembers them, completes names of tables and columns.
#pragma once

#include <functional>
#include <string>

#include "query/trace_set.hpp"

namespace tracesmith::query {

/// Reads from the terminal until .quit or Ctrl-D. Statements may span lines and end with ';'.
void runPrompt(TraceSet& traces, const std::function<void(const std::string& sql)>& statement);

/// True if the text holds a whole statement: it ends with ';' outside of quotes and comments.
bool isComplete(std::string_view sql);

}  // namespace tracesmith::query
