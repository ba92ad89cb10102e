// Reads what `nsys export --type sqlite` writes of a report of Nsight Systems.
#pragma once

#include <string>

#include "trace/import/import.hpp"
#include "trace/import/row_sink.hpp"

namespace tracesmith::trace {

struct NsysResult {
  InputFacts facts;
  Losses losses;
  uint64_t events = 0, collectives = 0;
  int64_t first_ns = kNull, last_ns = kNull;
};

/// `rank` (kNull: not known; a report does not say it) and `node` (empty: as the report calls its machine).
Result<NsysResult> importNsys(const std::string& path, Writer& writer, RowSink::Options sink, int64_t rank,
                              const std::string& node, const CollectiveOfEvent& collective_of);

}  // namespace tracesmith::trace
