// A trace of several nodes on one clock, for what knows only one: other tools' formats, a merged timeline.
#pragma once

#include <string>

#include "tracesmith/trace/reader.hpp"

namespace tracesmith::sync {

/// Whether several nodes of the trace have clocks of their own, so that its raw times cannot be compared.
Result<bool> needsAlignment(const trace::Reader& reader);

/// Writes a copy whose times are ns of the reference clock (Unix time, in a cluster), by the models in `clocks`.
/// What is no time is copied as it is. Memory: one block. The file is whole or absent.
Status alignTrace(const trace::Reader& reader, const std::string& path);

}  // namespace tracesmith::sync
