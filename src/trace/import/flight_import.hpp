// Reads what torch's flight recorder dumps when a job hangs or ends: the last collectives of one rank, as a pickle.
#pragma once

#include <string>
#include <string_view>

#include "base/file.hpp"
#include "trace/import/import.hpp"
#include "trace/import/losses.hpp"
#include "trace/import/row_sink.hpp"

namespace tracesmith::trace {

struct FlightResult {
  InputFacts facts;
  Losses losses;
  uint64_t collectives = 0;
  int64_t first_ns = kNull, last_ns = kNull;
};

/// `rank` (kNull: not known; the file does not say it) and `node` (empty: not known) hold for all rows.
Result<FlightResult> importFlight(const File& file, Writer& writer, RowSink::Options sink, int64_t rank,
                                  const std::string& node, const OperationOfName& operation_of);

}  // namespace tracesmith::trace
