// Fields of a JSON body.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/http/route.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::server {

/// The plain fields of a JSON object: texts and numbers. What else is in it is ignored.
class Fields {
 public:
  /// An empty body is an empty object.
  static Result<Fields> parse(const std::string& body);

  bool has(const std::string& key) const { return texts_.contains(key) || numbers_.contains(key); }
  /// Fails if there is a field that is not one of these, or is neither a text nor a number.
  Status only(const std::vector<Parameter>& known) const;
  /// Fails if it is there and is no text.
  Status text(const std::string& key, std::string& out) const;
  Status number(const std::string& key, double low, double high, double& out) const;

 private:
  std::map<std::string, std::string> texts_;
  std::map<std::string, double> numbers_;
  std::set<std::string> keys_;  // of all fields, whatever they are
};

}  // namespace tracesmith::server
