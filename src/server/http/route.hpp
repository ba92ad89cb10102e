// An endpoint, declared once: the router, the check of methods and roles, and the OpenAPI document come from it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "access/guard.hpp"
#include "server/http/message.hpp"

namespace tracesmith::server {

struct Parameter {
  const char* name;
  const char* type;  ///< of JSON Schema: string, integer, number
  bool required;
  const char* doc;
};

/// May be called from any thread.
using Handler = std::function<Answer(const Request&)>;

struct Route {
  const char* method;
  const char* path;  ///< with {name} for a part that varies
  access::Role role;
  const char* summary;
  std::vector<Parameter> parameters;  ///< of the query, or fields of the body of a POST
  Handler handler;
};

/// The OpenAPI document of all endpoints.
std::string openApi(const std::vector<Route>& routes);

}  // namespace tracesmith::server
