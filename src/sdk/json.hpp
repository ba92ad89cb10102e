// C++ values as JSON and back, for the types that methods of the C API take and give. A struct is listed once by
// FIELDS, an enumeration by NAMES; everything else comes from the types.
#pragma once

#include <simdjson.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::sdk {

/// In the namespace of the struct: visitFields(value, visitor) then calls visitor("name", member) for each member, and
/// structName(&value) has the struct's name.
#define FIELDS(Type, ...)                                                             \
  inline const char* structName(const Type*) { return #Type; }                        \
  template <typename Value, typename Visitor>                                         \
  requires std::is_same_v<std::remove_const_t<Value>, Type>                           \
  void visitFields([[maybe_unused]] Value& value, [[maybe_unused]] Visitor&& visit) { \
    __VA_OPT__(SDK_EXPAND(SDK_EACH(__VA_ARGS__)))                                     \
  }
#define SDK_PARENS ()
#define SDK_EACH(name, ...) \
  visit(#name, value.name); \
  __VA_OPT__(SDK_AGAIN SDK_PARENS(__VA_ARGS__))
#define SDK_AGAIN() SDK_EACH
#define SDK_EXPAND(...) SDK_EXPAND3(SDK_EXPAND3(SDK_EXPAND3(__VA_ARGS__)))
#define SDK_EXPAND3(...) SDK_EXPAND2(SDK_EXPAND2(SDK_EXPAND2(__VA_ARGS__)))
#define SDK_EXPAND2(...) SDK_EXPAND1(SDK_EXPAND1(SDK_EXPAND1(__VA_ARGS__)))
#define SDK_EXPAND1(...) __VA_ARGS__

/// In the namespace of an enumeration that begins at 0: its values in order, or the function that names them.
#define NAMES(Type, ...)                                                    \
  inline const std::vector<std::string>& valueNames(Type) {                 \
    static const auto* names = ::tracesmith::sdk::splitNames(#__VA_ARGS__); \
    return *names;                                                          \
  }
#define NAMES_BY(Type, name, count)                                                     \
  inline const std::vector<std::string>& valueNames(Type) {                             \
    static const auto* names = [] {                                                     \
      auto* list = new std::vector<std::string>;                                        \
      for (int i = 0; i < (count); ++i) list->emplace_back(name(static_cast<Type>(i))); \
      return list;                                                                      \
    }();                                                                                \
    return *names;                                                                      \
  }
const std::vector<std::string>* splitNames(std::string_view list);

template <typename T>
concept Struct = requires(const T* value) {
  structName(value);
};
template <typename T>
concept Named = std::is_enum_v<T> && requires(T value) {
  valueNames(value);
};

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsMap : std::false_type {};
template <typename K, typename V>
struct IsMap<std::map<K, V>> : std::true_type {};
template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsShared : std::false_type {};
template <typename T>
struct IsShared<std::shared_ptr<T>> : std::true_type {};
template <typename T>
struct IsPair : std::false_type {};
template <typename A, typename B>
struct IsPair<std::pair<A, B>> : std::true_type {};

template <Named T>
std::string nameOf(T value) {
  const std::vector<std::string>& names = valueNames(value);
  const auto i = static_cast<size_t>(value);
  return i < names.size() ? names[i] : std::to_string(i);
}

/// The key of an object of JSON.
template <typename K>
std::string keyOf(const K& key) {
  if constexpr (std::is_same_v<K, std::string>)
    return key;
  else if constexpr (Named<K>)
    return nameOf(key);
  else if constexpr (IsPair<K>::value)
    return std::to_string(key.first) + "," + std::to_string(key.second);
  else
    return std::to_string(key);
}

/// A value that is JSON already.
struct Raw {
  std::string json;
};

template <typename T>
void write(JsonWriter& w, const T& value) {
  if constexpr (std::is_same_v<T, Raw>) {
    w.raw(value.json);
  } else if constexpr (IsOptional<T>::value || IsShared<T>::value) {
    value ? write(w, *value) : void(w.null());
  } else if constexpr (Named<T>) {
    w.value(nameOf(value));
  } else if constexpr (Struct<T>) {
    w.beginObject();
    visitFields(value, [&](const char* name, const auto& field) {
      w.key(name);
      write(w, field);
    });
    w.endObject();
  } else if constexpr (IsMap<T>::value) {
    w.beginObject();
    for (const auto& [key, item] : value) {
      w.key(keyOf(key));
      write(w, item);
    }
    w.endObject();
  } else if constexpr (IsVector<T>::value || std::is_array_v<T>) {
    w.beginArray();
    for (const auto& item : value) write(w, item);
    w.endArray();
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    w.value(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    std::isfinite(value) ? w.value(static_cast<double>(value)) : w.null();
  } else if constexpr (std::is_unsigned_v<T>) {
    w.value(static_cast<uint64_t>(value));
  } else {
    static_assert(std::is_integral_v<T>, "no way to write this type");
    w.value(static_cast<int64_t>(value));
  }
}

/// What a type is called in descriptions: "int", "str", "NCCLOperation", "list[…]", "dict[…]", "…?" where it may be
/// null.
template <typename T>
std::string typeName() {
  if constexpr (std::is_void_v<T>)
    return "None";
  else if constexpr (IsOptional<T>::value)
    return typeName<typename T::value_type>() + "?";
  else if constexpr (IsShared<T>::value)
    return typeName<std::remove_const_t<typename T::element_type>>() + "?";
  else if constexpr (std::is_same_v<T, Raw>)
    return "dict";
  else if constexpr (Struct<T>)
    return structName(static_cast<const T*>(nullptr));
  else if constexpr (IsMap<T>::value)
    return "dict[" + typeName<typename T::mapped_type>() + "]";
  else if constexpr (std::is_array_v<T>)
    return "list[" + typeName<std::remove_extent_t<T>>() + "]";
  else if constexpr (IsVector<T>::value)
    return "list[" + typeName<typename T::value_type>() + "]";
  else if constexpr (std::is_same_v<T, bool>)
    return "bool";
  else if constexpr (std::is_same_v<T, std::string> || std::is_enum_v<T>)
    return "str";
  else
    return std::is_floating_point_v<T> ? "float" : "int";
}

using Json = simdjson::dom::element;

/// Sets `value`; the error reads on from the name of what was given.
template <typename T>
Status read(const Json& json, T& value) {
  if constexpr (IsOptional<T>::value) {
    if (json.is_null()) {
      value.reset();
      return {};
    }
    return read(json, value.emplace());
  } else if constexpr (Named<T>) {
    std::string_view text;
    if (json.get(text)) return Status::invalid("must be a name");
    const std::vector<std::string>& names = valueNames(value);
    std::string all;
    for (size_t i = 0; i < names.size(); ++i) {
      all += (i ? ", " : "") + names[i];
      if (names[i] != text) continue;
      value = static_cast<T>(i);
      return {};
    }
    return Status::invalid("must be one of " + all);
  } else if constexpr (Struct<T>) {
    simdjson::dom::object object;
    if (json.get(object)) return Status::invalid("must be an object");
    for (auto [key, item] : object) {
      bool known = false;
      Status status;
      visitFields(value, [&, k = key, i = item](const char* name, auto& field) {
        if (known || k != name) return;
        known = true;
        status = read(i, field);
        if (!status) status = Status::invalid(std::string(name) + " " + status.message());
      });
      if (!known) return Status::invalid(std::string(structName(&value)) + " has no field '" + std::string(key) + "'");
      TS_TRY(status);
    }
    return {};
  } else if constexpr (IsVector<T>::value) {
    simdjson::dom::array array;
    if (json.get(array)) return Status::invalid("must be a list");
    value.clear();
    for (Json item : array) TS_TRY(read(item, value.emplace_back()));
    return {};
  } else if constexpr (IsMap<T>::value) {
    simdjson::dom::object object;
    if (json.get(object)) return Status::invalid("must be an object");
    value.clear();
    if constexpr (std::is_same_v<typename T::key_type, std::string>) {
      for (auto [key, item] : object) TS_TRY(read(item, value[std::string(key)]));
      return {};
    }
    return Status::invalid("cannot be set");
  } else if constexpr (std::is_same_v<T, bool>) {
    return json.get(value) ? Status::invalid("must be true or false") : Status();
  } else if constexpr (std::is_same_v<T, std::string>) {
    std::string_view text;
    if (json.get(text)) return Status::invalid("must be a text");
    value = text;
    return {};
  } else if constexpr (std::is_floating_point_v<T>) {
    double number = 0;
    if (json.get(number)) return Status::invalid("must be a number");
    value = static_cast<T>(number);
    return {};
  } else if constexpr (std::is_integral_v<T>) {
    std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t> number{};
    if (json.get(number) || static_cast<T>(number) != number)
      return Status::invalid("must be a whole number that fits");
    value = static_cast<T>(number);
    return {};
  } else {
    return Status::invalid("cannot be set");
  }
}

/// Parses a text; the parser must live as long as what it gives.
inline Status parse(simdjson::dom::parser& parser, std::string_view text, Json& json) {
  if (parser.parse(text.data(), text.size()).get(json)) return Status::invalid("the argument is not valid JSON");
  return {};
}

/// "Name": {"field": {"type": …, "value": what it begins with}, …}
template <typename T>
void describeStruct(JsonWriter& w) {
  const T begins{};
  w.key(structName(&begins)).beginObject();
  visitFields(begins, [&]<typename F>(const char* name, const F& field) {
    w.key(name).beginObject().field("type", typeName<F>()).key("value");
    write(w, field);
    w.endObject();
  });
  w.endObject();
}

}  // namespace tracesmith::sdk
