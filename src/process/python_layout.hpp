// Where CPython 3.8 to 3.14 keep the parts of a stack (python_layout.def).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "process/memory.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::process {

struct PythonVersion {
  int major = 0, minor = 0, micro = -1;  ///< micro: -1 if not known
  bool operator>=(std::pair<int, int> other) const { return std::pair(major, minor) >= other; }
};
std::string text(const PythonVersion& version);  ///< 3.11.2

struct PythonLayout {
  static constexpr uint32_t kNone = 0xffffffff;  ///< this version has no such field
  PythonVersion version;
  bool free_threaded = false;  ///< built without the GIL
#define TS_PYTHON_FIELD(field, ...) uint32_t field = kNone;
#include "process/python_layout.def"
};

/// Of 3.8 to 3.12.
Result<PythonLayout> knownLayout(const PythonVersion& version);
/// What an interpreter of 3.13 or later says itself, at the beginning of its _PyRuntime; nothing if it says nothing.
/// A table that contradicts itself is an error.
Result<std::optional<PythonLayout>> toldLayout(Memory& memory, uint64_t runtime);

/// From Py_Version, which has one byte for each part.
PythonVersion versionOf(uint64_t hex);

}  // namespace tracesmith::process
