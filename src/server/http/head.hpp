// The head of a request as it came, before the HTTP library makes something of it.
#pragma once

#include <cstddef>
#include <string_view>

namespace tracesmith::server {

/// What is wrong with a head, and the HTTP status that says so.
struct HeadProblem {
  int status = 0;  ///< 0: nothing
  const char* text = "";
};

/// Looks for everything that two servers in a row could read differently: where a request ends, and whose it is.
/// A proxy and we would then take the rest of one request for the beginning of another. `head` ends with an empty line.
HeadProblem checkHead(std::string_view head);

}  // namespace tracesmith::server
