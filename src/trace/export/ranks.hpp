// The ranks of a trace, and the rows of one of them: exporters go rank by rank, so that their memory does not grow with
// the job.
#pragma once

#include <vector>

#include "trace/export/time_order.hpp"

namespace tracesmith::trace {

/// Ranks that may have selected rows in these tables, ascending; kNull, first, stands for rows without a rank.
Result<std::vector<int64_t>> ranksOf(const Reader& reader, const std::vector<const TableInfo*>& tables,
                                     const Selection& selection);

/// Selected rows of one rank (or of kNull) in order of time. `columns` must have ts, and dur and rank if the table has
/// them.
TimeOrder rowsOfRank(const Reader& reader, const TableInfo& table, const Selection& selection, int64_t rank,
                     std::vector<int> columns);

}  // namespace tracesmith::trace
