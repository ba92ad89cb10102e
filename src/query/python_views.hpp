// Views for people who think in steps, losses and operators: the schema `python`, and the tables of programs.
#pragma once

#include <duckdb.hpp>

namespace tracesmith::query {

/// Makes python.torch_trace, nccl_trace, training_metrics and backtrace, and a view of the schema `python` for each
/// table that a program made (tracesmith.table). `several`: tables have a column `trace`. Throws what DuckDB throws.
void makePythonViews(duckdb::Connection& connection, bool several);

}  // namespace tracesmith::query
