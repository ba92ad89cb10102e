// The ranks of a trace, and the rows of one of them: exporters go rank by rank, so that their memory does not grow with
// the job.
#pragma once

#include <vector>

#include "trace/time_order.hpp"

namespace tracesmith::trace {

/// Ranks that may have selected rows in these tables, ascending; kNull, first, stands for rows without a rank.
Result<std::vector<int64_t>> ranksOf(const Reader& reader, const std::vector<const TableInfo*>& tables,
                                     const Selection& selection);

/// Ranks to go through a table with at once, where blocks mix ranks: each pass decodes all of them.
constexpr size_t kRankBatch = 64;
/// The ranks in batches; kNull, which no selection can name, is one of its own.
std::vector<std::vector<int64_t>> rankBatches(const std::vector<int64_t>& ranks);

/// Selected rows of a batch of ranks in order of time. `columns` as below.
TimeOrder rowsOfRanks(const Reader& reader, const TableInfo& table, const Selection& selection,
                      const std::vector<int64_t>& ranks, std::vector<int> columns);
/// Selected rows of one rank (or of kNull) in order of time. `columns` must have ts, and dur and rank if the table has
/// them.
TimeOrder rowsOfRank(const Reader& reader, const TableInfo& table, const Selection& selection, int64_t rank,
                     std::vector<int> columns);

}  // namespace tracesmith::trace
