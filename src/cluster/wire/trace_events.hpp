// Rows of `events` and `collectives` as programs know them: TraceEvent.
#pragma once

#include <vector>

#include "trace/rows.hpp"
#include "tracesmith/common/types.hpp"

namespace tracesmith::cluster {

/// Columns toTraceEvent reads.
std::vector<int> traceEventColumns(const trace::TableInfo& table);
/// Times are as in the row. A collective is NCCLComplete, or NCCLStart where it was not seen to run.
tracesmith::TraceEvent toTraceEvent(const trace::TableInfo& table, const trace::Row& row);
/// kNull: not known.
int64_t rankOf(const trace::TableInfo& table, const trace::Row& row);
std::string_view nodeOf(const trace::TableInfo& table, const trace::Row& row);

/// What users call the rows of a filter: the types of `events`, and "collective".
constexpr uint64_t kCollectiveBit = 1ull << 63;
/// Bit of a name, 0 if there is none of that name.
uint64_t typeBit(const std::string& name);
/// Bit of a row.
uint64_t typeBit(const trace::TableInfo& table, const trace::Row& row);

}  // namespace tracesmith::cluster
