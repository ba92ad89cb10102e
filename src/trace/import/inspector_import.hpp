// Reads what NCCL's Inspector writes: a JSON object in each line, one for each collective of a communicator.
#pragma once

#include <string>

#include "base/file.hpp"
#include "trace/import/import.hpp"
#include "trace/import/row_sink.hpp"

namespace tracesmith::trace {

struct InspectorResult {
  InputFacts facts;
  Losses losses;
  uint64_t collectives = 0;
};

/// `rank` (kNull: the one in the largest communicator of the file) and `node` (empty: the host that the file names).
Result<InspectorResult> importInspector(const File& file, Writer& writer, RowSink::Options sink, int64_t rank,
                                        const std::string& node, const OperationOfName& operation_of);

}  // namespace tracesmith::trace
