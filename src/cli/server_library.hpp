// Loads libtracesmith_server.so when a page is to be served. Everything else works without it and without OpenSSL.
#pragma once

#include "server/api.hpp"

namespace tracesmith::cli {

/// The library beside the program (../lib), or where the loader finds it; it stays loaded.
Result<server::Library*> loadServer();

}  // namespace tracesmith::cli
