#include "base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace tracesmith {

std::string humanCount(uint64_t n) {
  std::string digits = std::to_string(n), out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

namespace {

std::string scaled(double v, double step, const char* const* units, int count) {
  int u = 0;
  while (std::abs(v) >= step && u + 1 < count) {
    v /= step;
    ++u;
  }
  char buffer[48];
  double a = std::abs(v);
  int decimals = u == 0 && v == std::floor(v) ? 0 : a >= 100 ? 1 : a >= 10 ? 2 : 3;
  std::snprintf(buffer, sizeof buffer, "%.*f %s", decimals, v, units[u]);
  return buffer;
}

/// Length of the valid UTF-8 sequence at s[i], or 0.
size_t utf8Length(std::string_view s, size_t i) {
  auto c = static_cast<uint8_t>(s[i]);
  size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
  if (n == 0 || i + n > s.size()) return 0;
  for (size_t k = 1; k < n; ++k)
    if ((static_cast<uint8_t>(s[i + k]) & 0xc0) != 0x80) return 0;
  auto second = n > 1 ? static_cast<uint8_t>(s[i + 1]) : 0;
  if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second > 0x9f) || (c == 0xf0 && second < 0x90) ||
      (c == 0xf4 && second > 0x8f))
    return 0;
  return n;
}

}  // namespace

std::string humanBytes(uint64_t bytes) {
  static const char* const kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  return scaled(static_cast<double>(bytes), 1000, kUnits, 6);
}

std::string humanNs(double ns) {
  static const char* const kUnits[] = {"ns", "µs", "ms", "s"};
  return scaled(ns, 1000, kUnits, 4);
}

std::string humanNsWithin(double ns, double bound) {
  if (!(bound > 0)) return humanNs(ns);
  if (std::abs(ns) < bound) return "< " + humanNs(bound);
  const double step = std::pow(10, std::floor(std::log10(bound)));
  std::string text = humanNs(std::round(ns / step) * step);
  const size_t point = text.find('.'), unit = text.find(' ');
  if (point == std::string::npos || unit == std::string::npos || point > unit) return text;
  static const std::pair<const char*, double> kUnits[] = {{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  for (const auto& [name, length] : kUnits) {
    if (text.substr(unit + 1) != name) continue;
    const auto digits = static_cast<size_t>(std::max(0.0, std::round(std::log10(length / step))));
    const size_t keep = digits == 0 ? point : point + 1 + digits;
    if (keep < unit) text.erase(keep, unit - keep);
    break;
  }
  return text;
}

bool parseBytes(std::string_view s, uint64_t& bytes) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},      {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  double number = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) return false;
  s.remove_prefix(static_cast<size_t>(end - s.data()));
  while (s.starts_with(' ')) s.remove_prefix(1);
  for (const auto& [unit, factor] : kUnits) {
    if (s != unit || number * factor >= 0x1p63) continue;
    bytes = static_cast<uint64_t>(number * factor);
    return true;
  }
  return false;
}

bool parseInt(std::string_view s, int64_t& value) {
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  return error == std::errc() && end == s.data() + s.size() && !s.empty();
}

bool parseDuration(std::string_view s, int64_t& ns) {
  double v;
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (error != std::errc()) return false;
  std::string_view unit(end, static_cast<size_t>(s.data() + s.size() - end));
  double scale = unit == "ns"                   ? 1
                 : unit == "us" || unit == "µs" ? 1e3
                 : unit == "ms"                 ? 1e6
                 : unit == "s"                  ? 1e9
                 : unit == "m"                  ? 60e9
                                                : 0;
  if (scale == 0 || !(std::abs(v * scale) < 9e18)) return false;
  ns = std::llround(v * scale);
  return true;
}

void appendUtf8(std::string& out, std::string_view s) {
  size_t plain = 0;  // start of the run not yet copied
  for (size_t i = 0; i < s.size();) {
    size_t n = static_cast<uint8_t>(s[i]) < 0x80 ? 1 : utf8Length(s, i);
    if (n > 0) {
      i += n;
      continue;
    }
    out.append(s, plain, i - plain);
    out += "\xef\xbf\xbd";
    plain = ++i;
  }
  out.append(s, plain, s.size() - plain);
}

void appendJsonString(std::string& out, std::string_view s) {
  out += '"';
  size_t plain = 0;  // start of the run not yet copied
  for (size_t i = 0; i < s.size();) {
    auto c = static_cast<uint8_t>(s[i]);
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      ++i;
      continue;
    }
    if (size_t n = c >= 0x80 ? utf8Length(s, i) : 0; n > 0) {
      i += n;
      continue;
    }
    out.append(s, plain, i - plain);
    if (c >= 0x80) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", c);
      out += buffer;
    }
    plain = ++i;
  }
  out.append(s, plain, s.size() - plain);
  out += '"';
}

void appendJsonNumber(std::string& out, double v) {
  if (!std::isfinite(v)) {
    out += "null";
    return;
  }
  char buffer[40];
  auto result = std::to_chars(buffer, buffer + sizeof buffer, v);
  out.append(buffer, result.ptr);
}

std::string escapedMarkup(std::string_view s) {
  std::string clean, out;
  appendUtf8(clean, s);
  for (char c : clean) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

void JsonWriter::comma() {
  if (need_comma_) out_ += ',';
  need_comma_ = true;
}

JsonWriter& JsonWriter::open(char c) {
  comma();
  out_ += c;
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char c) {
  out_ += c;
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view k) {
  comma();
  appendJsonString(out_, k);
  out_ += ':';
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view v) {
  comma();
  appendJsonString(out_, v);
  return *this;
}

JsonWriter& JsonWriter::value(double v) {
  comma();
  appendJsonNumber(out_, v);
  return *this;
}

JsonWriter& JsonWriter::value(int64_t v) {
  char text[24];
  return raw({text, std::to_chars(text, text + sizeof text, v).ptr});
}
JsonWriter& JsonWriter::value(uint64_t v) {
  char text[24];
  return raw({text, std::to_chars(text, text + sizeof text, v).ptr});
}
JsonWriter& JsonWriter::value(bool v) { return raw(v ? "true" : "false"); }
JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::raw(std::string_view json) {
  comma();
  out_ += json;
  return *this;
}

std::string alignTable(const std::vector<std::vector<std::string>>& rows, std::string_view indent) {
  auto width = [](const std::string& s) {  // of UTF-8 text, in characters
    return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  };
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i >= widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], width(row[i]));
    }
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    out += indent;
    std::string line;
    for (size_t i = 0; i < rows[r].size(); ++i) {
      const std::string& cell = rows[r][i];
      // A heading stands as the first number below it does.
      const std::string& model = r == 0 && rows.size() > 1 && i < rows[1].size() ? rows[1][i] : cell;
      bool right = !model.empty() && ((model[0] >= '0' && model[0] <= '9') || model[0] == '-');
      std::string space(widths[i] - width(cell), ' ');
      if (i) line += "  ";
      line += right ? space + cell : cell + space;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace tracesmith
