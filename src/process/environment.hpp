// The environment a process was started with, without its secrets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::process {

struct Variable {
  std::string name, value;
  bool masked = false;  ///< its value may be a secret: it is "***"
};

/// In the order of the process. Only the user of a process and root may read it.
Result<std::vector<Variable>> environmentOf(const std::string& root, int64_t pid);

/// Whether a value must not be shown: by the words of its name (TOKEN, KEY, PASSWORD, …), or because it looks like a
/// credential. Rather one too many.
bool mayBeSecret(std::string_view name, std::string_view value);

}  // namespace tracesmith::process
