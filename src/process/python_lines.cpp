#include "process/python_lines.hpp"

namespace tracesmith::process {
namespace {

uint8_t byteAt(std::string_view s, size_t i) { return static_cast<uint8_t>(s[i]); }

/// Until 3.9: pairs of how much further in the code, and how many lines further from there on.
std::optional<int64_t> fromIncrements(std::string_view table, int64_t line, int64_t offset) {
  int64_t at = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    at += byteAt(table, i);
    if (at > offset) break;
    line += static_cast<int8_t>(table[i + 1]);
  }
  return line;
}

/// 3.10: pairs of how many lines further, and for how much of the code; -128 lines: it belongs to no line.
std::optional<int64_t> fromRanges(std::string_view table, int64_t line, int64_t offset) {
  int64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto further = static_cast<int8_t>(table[i + 1]);
    if (further != -128) line += further;
    end += byteAt(table, i);
    if (offset < end) return further == -128 ? std::nullopt : std::optional<int64_t>(line);
  }
  return std::nullopt;
}

/// A number in pieces of six bits, the lowest first; bit 6 says that another one follows.
bool readNumber(std::string_view table, size_t& at, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 36; shift += 6) {
    if (at >= table.size()) return false;
    const uint8_t piece = byteAt(table, at++);
    value |= static_cast<uint64_t>(piece & 63) << shift;
    if (!(piece & 64)) return true;
  }
  return false;
}

/// From 3.11 on: entries that begin with a byte above 127, which has a kind and how many instructions it is for.
std::optional<int64_t> fromLocations(std::string_view table, int64_t line, int64_t offset) {
  int64_t end = 0;
  for (size_t at = 0; at < table.size();) {
    const uint8_t head = byteAt(table, at++);
    if (!(head & 128)) return std::nullopt;
    const int kind = head >> 3 & 15;
    bool no_line = false;
    if (kind == 13 || kind == 14) {  // lines further, as a number with its sign in the lowest bit
      uint64_t number = 0;
      if (!readNumber(table, at, number)) return std::nullopt;
      const auto size = static_cast<int64_t>(number >> 1);
      line += number & 1 ? -size : size;
    } else if (kind >= 10 && kind <= 12) {
      line += kind - 10;
    } else if (kind == 15) {
      no_line = true;
    }
    end += 2 * ((head & 7) + 1);
    if (offset < end) return no_line ? std::nullopt : std::optional<int64_t>(line);
    while (at < table.size() && !(byteAt(table, at) & 128)) ++at;  // columns
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> lineAt(const PythonVersion& version, std::string_view table, int64_t first_line,
                              int64_t offset) {
  if (offset < 0) return first_line;
  if (version >= std::pair(3, 11)) return fromLocations(table, first_line, offset);
  if (version >= std::pair(3, 10)) return fromRanges(table, first_line, offset);
  return fromIncrements(table, first_line, offset);
}

}  // namespace tracesmith::process
