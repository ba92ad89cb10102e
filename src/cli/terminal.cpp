#include "cli/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.hpp"

namespace tracesmith::cli {
namespace {

bool startsCharacter(char c) { return (c & 0xc0) != 0x80; }

/// Bytes of the first `count` characters.
size_t prefix(std::string_view text, size_t count) {
  size_t i = 0;
  for (; i < text.size(); ++i)
    if (startsCharacter(text[i]) && count-- == 0) break;
  return i;
}

}  // namespace

size_t terminalWidth() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  int64_t columns;
  const char* text = std::getenv("COLUMNS");
  if (text && parseInt(text, columns) && columns > 0) return static_cast<size_t>(columns);
  return 80;
}

std::string printable(std::string_view text) {
  std::string out;
  appendUtf8(out, text);
  for (size_t i = 0; i < out.size(); ++i) {
    auto c = static_cast<unsigned char>(out[i]);
    if (c < 0x20 || c == 0x7f) out[i] = '?';
    // U+0080 to U+009F are control characters too.
    if (c == 0xc2 && i + 1 < out.size() && static_cast<unsigned char>(out[i + 1]) < 0xa0) out.replace(i, 2, "?");
  }
  return out;
}

size_t displayWidth(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), startsCharacter));
}

std::string shorten(const std::string& text, size_t width) {
  size_t length = displayWidth(text);
  if (length <= width) return text;
  if (width == 0) return "";
  size_t head = (width - 1) * 2 / 3, tail = width - 1 - head;
  return text.substr(0, prefix(text, head)) + "…" + text.substr(prefix(text, length - tail));
}

}  // namespace tracesmith::cli
