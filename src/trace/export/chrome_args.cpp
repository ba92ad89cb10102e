#include "trace/export/chrome_args.hpp"

#include <simdjson.h>

#include "tracesmith/trace/schema.hpp"

namespace tracesmith::trace {

struct ChromeArgs::Impl {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  bool good = false;
  std::string text;
};

ChromeArgs::ChromeArgs() : impl_(std::make_unique<Impl>()) {}
ChromeArgs::~ChromeArgs() = default;

bool ChromeArgs::parse(std::string_view json) {
  members_ = {};
  impl_->good = false;
  if (json.empty()) return false;
  impl_->text.assign(json);
  impl_->text.append(simdjson::SIMDJSON_PADDING, ' ');
  impl_->good = impl_->parser.parse(impl_->text.data(), json.size(), false).get(impl_->object) == simdjson::SUCCESS;
  if (!impl_->good) return false;
  size_t from = json.find_first_not_of(" \t\r\n", json.find('{') + 1), to = json.rfind('}');
  if (from < to) members_ = json.substr(from, to - from);
  return true;
}

bool ChromeArgs::has(std::string_view key) const {
  return impl_->good && impl_->object.at_key(key).error() == simdjson::SUCCESS;
}

int64_t ChromeArgs::integer(std::string_view key) const {
  int64_t v;
  return impl_->good && impl_->object.at_key(key).get(v) == simdjson::SUCCESS ? v : kNull;
}

std::string ChromeArgs::json(std::string_view key) const {
  simdjson::dom::element value;
  if (!impl_->good || impl_->object.at_key(key).get(value) != simdjson::SUCCESS) return {};
  return simdjson::minify(value);
}

std::string_view ChromeArgs::takeLastString(std::string_view key) {
  const std::string start = "\"" + std::string(key) + "\":\"";
  size_t at = members_.rfind(start);
  if (at == std::string_view::npos || (at > 0 && members_[at - 1] != ',')) return {};
  std::string_view value = members_.substr(at + start.size() - 1);
  // The value must reach to the end: no quote in between, nothing escaped. Others stay where they are.
  if (value.size() < 2 || value.find('"', 1) != value.size() - 1 || value.find('\\') != std::string_view::npos)
    return {};
  members_ = members_.substr(0, at > 0 ? at - 1 : 0);
  return value;
}

}  // namespace tracesmith::trace
