#include "cli/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/progress.hpp"
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

size_t textWidth() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  int64_t columns;
  const char* text = std::getenv("COLUMNS");
  if (text && parseInt(text, columns) && columns > 0) return static_cast<size_t>(columns);
  return SIZE_MAX;
}

size_t terminalWidth() { return textWidth() == SIZE_MAX ? 80 : textWidth(); }

bool takesColor() {
  const char* no_color = std::getenv("NO_COLOR");
  return drawsOn(STDOUT_FILENO) && (!no_color || !*no_color);
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

namespace {

/// Where the text of a line begins: behind blanks, or behind the names of an option.
size_t textBegin(const std::string& line, size_t width) {
  const size_t first = line.find_first_not_of(' ');
  const size_t gap = line.find("  ", first);
  const size_t text = gap == std::string::npos ? gap : line.find_first_not_of(' ', gap);
  if (text == std::string::npos || text > width / 2)
    return first == 0 ? 0 : std::min(first >= 20 ? first : first + 2, width / 2);
  return text;
}

bool isCommand(const std::string& line) {
  const size_t first = line.find_first_not_of(' ');
  const size_t text = line.starts_with("Example") ? line.find_first_not_of(' ', line.find(':') + 1) : first;
  if (text == std::string::npos) return false;
  const std::string_view rest = std::string_view(line).substr(text);
  return (text >= 2 && rest.starts_with("tracesmith ")) || (text >= 2 && rest.starts_with("gsprof "));
}

}  // namespace

std::string wrapped(const std::string& text, size_t width) {
  if (width == SIZE_MAX) return text;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    // A paragraph that was broken for a wider terminal is put together first.
    const bool prose =
        !line.empty() && line[0] != ' ' && line.find("  ") == std::string::npos && !line.starts_with("Usage");
    if (prose && displayWidth(line) > width)
      for (size_t next = end + 1; next < text.size() && text[next] != '\n' && text[next] != ' '; next = end + 1) {
        if (text.substr(next, 7) == "Example") break;
        end = std::min(text.find('\n', next), text.size());
        line += " " + text.substr(next, end - next);
      }
    at = end + 1;
    if (displayWidth(line) <= width || line.find_first_not_of(' ') == std::string::npos) {
      out += line + (end < text.size() ? "\n" : "");
      continue;
    }
    const bool command = isCommand(line);
    const size_t begin = textBegin(line, width) + (command ? 2 : 0), room = width - (command ? 2 : 0);
    while (displayWidth(line) > width) {
      size_t cut = line.rfind(' ', prefix(line, room));
      const size_t word = line.find_first_not_of(' ');
      if (cut == std::string::npos || cut <= word) cut = line.find(' ', word);  // a word that is wider than the text
      if (cut == std::string::npos) break;
      const size_t next = line.find_first_not_of(' ', cut), last = line.find_last_not_of(' ', cut);
      if (next == std::string::npos) break;
      out += line.substr(0, last + 1) + (command ? " \\\n" : "\n");
      line = std::string(begin, ' ') + line.substr(next);
    }
    out += line + (end < text.size() ? "\n" : "");
  }
  return out;
}

std::string tableText(std::vector<std::vector<std::string>> rows, std::string_view indent, size_t width) {
  constexpr size_t kLeast = 20, kGap = 2;
  auto widthsOf = [&] {
    std::vector<size_t> widths;
    for (const auto& row : rows)
      for (size_t i = 0; i < row.size(); ++i) {
        if (i >= widths.size()) widths.push_back(0);
        widths[i] = std::max(widths[i], displayWidth(row[i]));
      }
    return widths;
  };
  auto total = [&](const std::vector<size_t>& widths, size_t from, size_t to) {
    size_t sum = indent.size();
    for (size_t i = from; i < to; ++i) sum += widths[i] + (i > from ? kGap : 0);
    return sum;
  };
  std::vector<size_t> widths = widthsOf();
  if (width == SIZE_MAX || widths.empty() || total(widths, 0, widths.size()) <= width) return alignTable(rows, indent);
  const size_t longest = static_cast<size_t>(std::max_element(widths.begin(), widths.end()) - widths.begin());
  const size_t all = total(widths, 0, widths.size());
  const size_t room = std::max(kLeast, widths[longest] > all - width ? widths[longest] - (all - width) : 0);
  if (widths[longest] > room) {
    for (auto& row : rows)
      if (longest < row.size()) row[longest] = shorten(row[longest], room);
    widths = widthsOf();
  }
  if (total(widths, 0, widths.size()) <= width) return alignTable(rows, indent);
  std::string out;
  for (size_t from = 1; from < widths.size();) {
    size_t to = from + 1;
    while (to < widths.size() && total(widths, from, to + 1) + widths[0] + kGap <= width) ++to;
    std::vector<std::vector<std::string>> part;
    for (const auto& row : rows) {
      part.push_back({row.empty() ? "" : row[0]});
      for (size_t i = from; i < to && i < row.size(); ++i) part.back().push_back(row[i]);
    }
    out += (out.empty() ? "" : "\n") + alignTable(part, indent);
    from = to;
  }
  return out;
}

}  // namespace tracesmith::cli
