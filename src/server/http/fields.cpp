#include "server/http/fields.hpp"

#include <simdjson.h>

#include <algorithm>

#include "base/text.hpp"

namespace tracesmith::server {

Result<Fields> Fields::parse(const std::string& body) {
  Fields fields;
  if (body.find_first_not_of(" \t\r\n") == std::string::npos) return fields;
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (parser.parse(body).get_object().get(object) != simdjson::SUCCESS)
    return Status::invalid("the body is not a JSON object");
  for (const auto& [key, value] : object) {
    std::string_view text;
    double number;
    fields.keys_.emplace(key);
    if (value.get_string().get(text) == simdjson::SUCCESS)
      fields.texts_[std::string(key)] = std::string(text);
    else if (value.get_double().get(number) == simdjson::SUCCESS)
      fields.numbers_[std::string(key)] = number;
  }
  return fields;
}

Status Fields::only(const std::vector<Parameter>& known) const {
  std::string names;
  for (const Parameter& p : known) names += (names.empty() ? "" : ", ") + std::string(p.name);
  for (const std::string& key : keys_) {
    if (std::none_of(known.begin(), known.end(), [&](const Parameter& p) { return key == p.name; }))
      return Status::invalid("there is no field '" + key.substr(0, 64) + "': use " + names);
    if (!has(key)) return Status::invalid("'" + key + "' must be a string or a number");
  }
  return {};
}

Status Fields::text(const std::string& key, std::string& out) const {
  if (numbers_.contains(key)) return Status::invalid("'" + key + "' must be a string");
  if (auto it = texts_.find(key); it != texts_.end()) out = it->second;
  return {};
}

Status Fields::number(const std::string& key, double low, double high, double& out) const {
  if (texts_.contains(key)) return Status::invalid("'" + key + "' must be a number");
  auto it = numbers_.find(key);
  if (it == numbers_.end()) return {};
  if (it->second < low || it->second > high) {
    std::string range = "'" + key + "' must be between ";
    appendJsonNumber(range, low);
    range += " and ";
    appendJsonNumber(range, high);
    return Status::invalid(range);
  }
  out = it->second;
  return {};
}

}  // namespace tracesmith::server
