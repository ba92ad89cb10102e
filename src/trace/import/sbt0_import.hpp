// Reads an SBT v0.1 file into a trace, also one whose writer was killed: as far as its bytes go.
#pragma once

#include <string>

#include "base/file.hpp"
#include "trace/import/losses.hpp"
#include "trace/import/row_sink.hpp"

namespace tracesmith::trace {

struct Sbt0Result {
  InputFacts facts;
  Losses losses;
  uint64_t events = 0;
};

/// `rank` and `node` as from the command line; kNull and "": not given.
Result<Sbt0Result> importSbt0(const File& file, Writer& writer, RowSink::Options sink, int64_t rank,
                              const std::string& node);

}  // namespace tracesmith::trace
