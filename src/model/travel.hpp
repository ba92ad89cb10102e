// What travels between processes, languages and files, declared in travel.def and answer.def. Plain data; where a value
// was not measured it is not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/alert.hpp"

namespace tracesmith::model {

/// The kinds of fields: a C++ type and the value it begins with.
namespace kind {
template <typename T>
struct Kind {
  using type = T;
  static constexpr T none() { return T(); }
};
struct Text : Kind<std::string> {};
struct Note : Kind<std::string> {};
struct Flag : Kind<bool> {};
struct U32 : Kind<uint32_t> {};
struct U64 : Kind<uint64_t> {};
struct I64 : Kind<int64_t> {};
struct Real : Kind<double> {};
struct Wide : Kind<int64_t> {};
struct Time : Kind<int64_t> {};
struct Moment : Kind<int64_t> {};
struct Share : Kind<double> {};
struct Samples : Kind<std::vector<double>> {
  static std::vector<double> none() { return {}; }
};
struct Values : Kind<std::vector<std::pair<std::string, std::optional<double>>>> {
  static type none() { return {}; }
};
struct Index : Kind<int32_t> {
  static constexpr int32_t none() { return -1; }
};
}  // namespace kind

using tracesmith::fromName;
using tracesmith::nameOf;

#define ENUM(Name, doc) enum class Name : uint8_t {
#define VALUE(Name, value) value,
#define END_ENUM(Name)                                          \
  }                                                             \
  ;                                                             \
  const char* nameOf(Name value);                               \
  /** Leaves `value` as it is if there is none of that name. */ \
  void fromName(std::string_view name, Name& value);
#define STRUCT(Name, Message, doc) struct Name {
#define STRUCT_OF(Name, Message, Base, doc) struct Name : Base {
#define FIELD(Struct, Kind, name, doc) kind::Kind::type name = kind::Kind::none();
#define MAYBE(Struct, Kind, name, doc) std::optional<kind::Kind::type> name;
#define LIST(Struct, Kind, name, most, doc) std::vector<kind::Kind::type> name;
#define CHOICE(Struct, Enum, name, doc) Enum name{};
#define PART(Struct, Other, name, doc) Other name;
#define MAYBE_PART(Struct, Other, name, doc) std::optional<Other> name;
#define PARTS(Struct, Other, name, most, doc) std::vector<Other> name;
#define END_STRUCT(Name)                        \
  bool operator==(const Name&) const = default; \
  }                                             \
  ;
#define WITH_ANSWERS
#include "model/travel.def"

/// An alert of its kind's severity.
inline Alert alertOf(int64_t t_ns, AlertKind kind, std::string text) {
  return {t_ns, kind, info(kind).severity, std::move(text)};
}

}  // namespace tracesmith::model
