// A request and its answer, as handlers see them: nothing of the HTTP library.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "access/guard.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::server {

struct Request {
  std::string method, path, body, accept;
  access::Peer peer;
  std::map<std::string, std::string> query;  ///< the last of several counts
  std::map<std::string, std::string> names;  ///< what stood for {id} in the path
  access::Role role = access::Role::kNone;
  std::string origin;  ///< another site whose pages may ask; empty: none asks
  bool gzip = false;   ///< the client takes it
  int socket = -1;     ///< of the connection, to notice that the client goes or the server stops; not to read or write

  const std::string& name(const std::string& key) const { return names.at(key); }
  /// Empty if it was not given.
  std::string get(const std::string& key) const {
    auto it = query.find(key);
    return it == query.end() ? std::string() : it->second;
  }
};

/// Takes pieces of a body; false: the client went away.
using Sink = std::function<bool(std::string_view)>;

/// The one table from our codes to HTTP's.
int httpStatus(Code code);

struct Answer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  /// Instead of a body: writes all of it, in its own time. A failure cuts the connection.
  std::function<bool(const Sink&)> stream;

  static Answer json(std::string text, int status = 200) {
    Answer a;
    a.status = status;
    a.body = std::move(text);
    return a;
  }
  /// The one shape of every failure.
  static Answer error(int status, std::string_view message);
  static Answer error(const Status& status);
};

/// Parses the integer `text`; false if it is not one in [low, high].
bool parseRange(std::string_view text, int64_t low, int64_t high, int64_t& value);

}  // namespace tracesmith::server
