// What travels, as JSON: the one form that the HTTP API, webhooks and --json have.
#pragma once

#include <string>
#include <string_view>

#include "base/text.hpp"
#include "model/travel.hpp"

namespace tracesmith::model {

/// writeJson writes an object, writeFields only what is in it.
#define STRUCT(Name, Message, doc)                  \
  void writeJson(JsonWriter& w, const Name& value); \
  void writeFields(JsonWriter& w, const Name& value);
#define STRUCT_OF(Name, Message, Base, doc) STRUCT(Name, Message, doc)
#define WITH_ANSWERS
#include "model/travel.def"

template <typename T>
std::string toJson(const T& value) {
  std::string text;
  JsonWriter w(text);
  writeJson(w, value);
  return text;
}

}  // namespace tracesmith::model
