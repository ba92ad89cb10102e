// Text for a terminal: its width, and what is safe to print on it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tracesmith::cli {

/// Columns of the terminal that standard output leads to, or of COLUMNS; 80 if neither is known.
size_t terminalWidth();

/// The text on one line: control characters, which could steer the terminal, become '?', broken UTF-8 U+FFFD.
std::string printable(std::string_view text);
/// Characters of UTF-8 text.
size_t displayWidth(std::string_view text);
/// Takes out the middle of a text that is too long: "void gemm<floa…at const*)".
std::string shorten(const std::string& text, size_t width);

}  // namespace tracesmith::cli
