// Accepts connections, reads requests, writes answers: cpp-httplib parses, everything else is decided here.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/api.hpp"
#include "server/http/message.hpp"

namespace tracesmith::server {

/// Called before the body is read: an answer other than 0 ends the request. Sets the role.
using Admit = std::function<bool(Request& request, const std::map<std::string, std::string>& headers, Answer& answer)>;
using Handle = std::function<Answer(const Request& request)>;

class Listener {
 public:
  virtual ~Listener() = default;
  virtual uint16_t port() const = 0;
  virtual bool secure() const = 0;
  /// Serves from now on, until it is destroyed.
  virtual void serve(Admit admit, Handle handle) = 0;

  static Result<std::unique_ptr<Listener>> open(const std::string& host, uint16_t port,
                                                const access::SecurityOptions& security);
};

}  // namespace tracesmith::server
