#include "process/python_layout.hpp"

#include <cstring>
#include <vector>

namespace tracesmith::process {
namespace {

constexpr uint32_t NONE = PythonLayout::kNone;
constexpr size_t kWords = 96;           // of the table that an interpreter has; 3.14 has 93
constexpr uint64_t kLargest = 1 << 20;  // an offset beyond it is nonsense; the runtime of 3.12 has 460 KB

Status unknownVersion(const PythonVersion& version) {
  return Status::unsupported("Python " + text(version) + " is not supported: its stacks can be read from 3.8 to 3.14");
}

}  // namespace

std::string text(const PythonVersion& v) {
  return std::to_string(v.major) + "." + std::to_string(v.minor) + (v.micro < 0 ? "" : "." + std::to_string(v.micro));
}

PythonVersion versionOf(uint64_t hex) {
  return {static_cast<int>(hex >> 24 & 255), static_cast<int>(hex >> 16 & 255), static_cast<int>(hex >> 8 & 255)};
}

Result<PythonLayout> knownLayout(const PythonVersion& version) {
  if (version.major != 3 || version.minor < 8 || version.minor > 12) return unknownVersion(version);
  PythonLayout layout;
  layout.version = version;
  const auto column = static_cast<size_t>(version.minor - 8);
#define TS_PYTHON_FIELD(field, v8, v9, v10, v11, v12, w13, w14) \
  {                                                             \
    constexpr uint32_t kByVersion[] = {v8, v9, v10, v11, v12};  \
    layout.field = kByVersion[column];                          \
  }
#include "process/python_layout.def"
  return layout;
}

Result<std::optional<PythonLayout>> toldLayout(Memory& memory, uint64_t runtime) {
  uint64_t words[kWords] = {};
  if (!memory.read(runtime, words, sizeof words)) return Status::io("the memory of the interpreter cannot be read");
  if (std::memcmp(words, "xdebugpy", 8) != 0) return std::optional<PythonLayout>();
  PythonLayout layout;
  layout.version = versionOf(words[1]);
  layout.free_threaded = words[2] != 0;
  if (layout.version.major != 3 || layout.version.minor < 13 || layout.version.minor > 14)
    return unknownVersion(layout.version);
  bool sane = true;
  const auto word = [&](uint32_t w13, uint32_t w14) -> uint32_t {
    const uint32_t number = layout.version.minor == 13 ? w13 : w14;
    if (number == NONE) return NONE;
    sane &= words[number] < kLargest;
    return static_cast<uint32_t>(words[number]);
  };
#define TS_PYTHON_FIELD(field, v8, v9, v10, v11, v12, w13, w14) layout.field = word(w13, w14);
#include "process/python_layout.def"
  // Two fields of one struct at one place, or a GIL before its own beginning: not a table that we understand.
  sane &= layout.frame_previous != layout.frame_code && layout.code_file != layout.code_name &&
          layout.thread_next != layout.thread_frame && layout.string_length != layout.string_state &&
          layout.gil_begin <= layout.gil_holder && layout.gil_begin <= layout.gil_locked;
  if (!sane) return Status::corrupt("the interpreter's own table of its layout contradicts itself");
  layout.gil_holder -= layout.gil_begin;
  layout.gil_locked -= layout.gil_begin;
  return std::optional<PythonLayout>(layout);
}

}  // namespace tracesmith::process
