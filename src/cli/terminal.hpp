// What commands print on a terminal: its width, text that is safe on it, spans of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tracesmith::cli {

/// Columns of the terminal that standard output leads to, or of COLUMNS; 80 if neither is known.
size_t terminalWidth();

/// b − a, exact to a part in 2^53 however large a and b are.
inline double difference(int64_t a, int64_t b) {
  auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return b >= a ? static_cast<double>(y - x) : -static_cast<double>(x - y);
}

/// The text on one line: control characters, which could steer the terminal, become '?', broken UTF-8 U+FFFD.
std::string printable(std::string_view text);
/// Characters of UTF-8 text.
size_t displayWidth(std::string_view text);
/// Takes out the middle of a text that is too long: "void gemm<floa…at const*)".
std::string shorten(const std::string& text, size_t width);

}  // namespace tracesmith::cli
