// The tools that `tracesmith mcp` offers: each is one or more commands of `tracesmith`, or an answer that is there at
// once.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::cli {

struct ToolArgument {
  enum class Type { text, integer };
  const char* name;
  Type type;
  bool required;
  const char* help;
};

/// What the tools may reach.
struct ToolPlaces {
  std::vector<std::string> folders;  ///< where traces may be, canonical
  bool cluster = false;              ///< whether a master was named
  bool control = false;              ///< whether tools may change something
  std::string temporary;             ///< folder for sessions that are fetched, and what queries spill
  double query_s = 30;
};

/// Of one call: commands one after another. The answer is what the last one prints; without commands it is `text`.
struct ToolPlan {
  struct Step {
    std::vector<std::string> words;
    std::string input;
    bool query = false;  ///< a process for one statement, which says on its standard error how many rows there were
  };
  std::vector<Step> steps;
  std::string text;
};

/// By name. Numbers were checked and are text, too.
using ToolArguments = std::map<std::string, std::string>;

struct Tool {
  enum class Needs { nothing, cluster, control };
  const char* name;
  const char* title;
  const char* help;
  Needs needs;
  std::vector<ToolArgument> arguments;
  Result<ToolPlan> (*plan)(const ToolArguments& arguments, const ToolPlaces& places);

  bool offered(const ToolPlaces& places) const {
    return needs == Needs::nothing || (places.cluster && (needs == Needs::cluster || places.control));
  }
};

const std::vector<Tool>& tools();

}  // namespace tracesmith::cli
