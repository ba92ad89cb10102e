// What an analysis finds: the structs that verdict.def declares.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tracesmith/model/cause.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith::analysis {

/// What was not measured is kNull or NaN. Times are of the reference clock.
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

enum class VerdictKind { none, rank, link, unknown };

/// The kinds of fields in verdict.def: a type and the value it begins with.
namespace kind {
template <typename T>
struct Kind {
  using type = T;
  static T none() { return T(); }
};
struct Text : Kind<std::string> {};
struct Note : Kind<std::string> {};
struct Notes : Kind<std::vector<std::string>> {};
struct Flag : Kind<bool> {};
struct Int : Kind<int> {};
struct MaybeInt : Kind<std::optional<int>> {};
struct Count : Kind<uint64_t> {};
struct I64 : Kind<int64_t> {};
struct Ids : Kind<std::vector<int64_t>> {};
struct Counts : Kind<std::vector<std::vector<uint64_t>>> {};
struct Reals : Kind<std::vector<std::vector<double>>> {};
struct ByName : Kind<std::map<std::string, int64_t>> {};
struct How : Kind<std::string> {
  static std::string none() { return "none"; }
};
struct Sum : Kind<double> {};
struct Why : Kind<Cause> {};
struct MaybeWhy : Kind<std::optional<Cause>> {};
struct Id : Kind<int64_t> {
  static int64_t none() { return trace::kNull; }
};
struct Real : Kind<double> {
  static double none() { return kUnknown; }
};
struct Exact : Kind<double> {};
struct About : Kind<VerdictKind> {
  static VerdictKind none() { return VerdictKind::unknown; }
};
}  // namespace kind

#define STRUCT(Name, doc) struct Name {
#define FIELD(Struct, Kind, name, doc) kind::Kind::type name = kind::Kind::none();
#define PART(Struct, Other, name, doc) Other name;
#define MAYBE_PART(Struct, Other, name, doc) std::optional<Other> name;
#define PARTS(Struct, Other, name, doc) std::vector<Other> name;
#define END_STRUCT(Name) \
  }                      \
  ;
#include "tracesmith/model/verdict.def"

}  // namespace tracesmith::analysis
