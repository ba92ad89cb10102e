// Loads libtracesmith_query.so when SQL is asked for. Everything else works without it and without DuckDB.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "query/engine.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::cli {

/// A new engine from the library beside the program (../lib), or where the loader finds it.
/// The error says what is missing and what to do.
Result<std::unique_ptr<query::Engine>> loadQueryEngine();

}  // namespace tracesmith::cli
