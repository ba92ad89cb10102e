// The line of an instruction, from the table that a code object has.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "process/python_layout.hpp"

namespace tracesmith::process {

/// `offset`: of the instruction in the code, in bytes; negative: not begun. Nothing if the table does not say.
std::optional<int64_t> lineAt(const PythonVersion& version, std::string_view table, int64_t first_line, int64_t offset);

}  // namespace tracesmith::process
