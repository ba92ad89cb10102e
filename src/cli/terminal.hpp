// What commands print on a terminal: its width, text that is safe on it, spans of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tracesmith::cli {

/// Columns of the terminal that standard output leads to, or of COLUMNS; 80 if neither is known.
size_t terminalWidth();
/// The same for text that is wrapped or not; without limit if neither is known: a pipe gets lines as they are.
size_t textWidth();
/// Whether standard output takes colours: a terminal that knows them, and NO_COLOR is not set.
bool takesColor();

/// b − a, exact to a part in 2^53 however large a and b are.
inline double difference(int64_t a, int64_t b) {
  auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return b >= a ? static_cast<double>(y - x) : -static_cast<double>(x - y);
}

/// The text on one line: control characters, which could steer the terminal, become '?', broken UTF-8 U+FFFD.
std::string printable(std::string_view text);
/// Characters of UTF-8 text.
size_t displayWidth(std::string_view text);
/// Breaks lines that are wider at blanks. What follows stands below the text of its line: behind its indentation, or
/// below the description of an option. A command of an example is continued as a shell continues it.
std::string wrapped(const std::string& text, size_t width);
/// As alignTable(). A table that is wider than the text has its longest texts shortened; one that is still wider is
/// printed in parts, one below the other, each with the first column.
std::string tableText(std::vector<std::vector<std::string>> rows, std::string_view indent = "",
                      size_t width = textWidth());
/// Takes out the middle of a text that is too long: "void gemm<floa…at const*)".
std::string shorten(const std::string& text, size_t width);

}  // namespace tracesmith::cli
