// The names that fields have in JSON.
#pragma once

#include <string_view>
#include <type_traits>

#include "model/travel.hpp"

namespace tracesmith::model {

/// A time is a text and no number of ns: "start_ns" is called "start".
template <typename Kind>
constexpr std::string_view jsonName(std::string_view name) {
  constexpr bool time = std::is_same_v<Kind, kind::Time> || std::is_same_v<Kind, kind::Moment>;
  return time && name.ends_with("_ns") ? name.substr(0, name.size() - 3) : name;
}

}  // namespace tracesmith::model
