// Where the stacks of a trace spend their time.
#pragma once

#include "server/http/message.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::server {

/// As JSON: of all ranks, of one (`rank`), or of two that are compared (`with`); of samples in one `state` only.
Answer stacksOf(const trace::Reader& reader, const Request& r);

}  // namespace tracesmith::server
