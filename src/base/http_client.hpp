// Asks a web server: http only, nothing to install.
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

struct HttpReply {
  int status = 0;
  std::string body;
};
/// Sends a request with JSON (or nothing) and returns the answer, whatever its status. Takes five seconds at most.
/// For answers that come in one piece, as our own server's do; `token` empty: none is sent.
Result<HttpReply> httpAsk(const HttpUrl& url, const std::string& method, const std::string& json,
                          const std::string& token = "");

}  // namespace tracesmith
