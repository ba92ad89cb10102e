// Sends a text to a web server: http only, nothing to install.
#pragma once

#include <string>

#include "tracesmith/common/status.hpp"

namespace tracesmith {

struct HttpUrl {
  std::string host, port = "80", path = "/";
};
/// http://HOST[:PORT][/PATH]
Result<HttpUrl> parseHttpUrl(const std::string& url);

/// Posts JSON; an answer of 2xx is success. Takes five seconds at most.
Status httpPost(const HttpUrl& url, const std::string& json);

}  // namespace tracesmith
