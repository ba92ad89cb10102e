// The variables of frames: what is in them is shown without running anything of the process, so it is the contents of
// numbers, texts and containers, and of everything else the class.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "process/environment.hpp"
#include "process/python.hpp"

namespace tracesmith::process {
namespace {

constexpr uint64_t kMostVariables = 256, kMostItems = 8, kMostDigits = 64;
constexpr size_t kMostText = 200, kMostName = 128;
constexpr int kDeepest = 3;
// Of tp_flags: which of these classes an object's class is derived from.
constexpr uint64_t kInt = 1 << 24, kList = 1 << 25, kTuple = 1 << 26, kBytes = 1 << 27, kText = 1 << 28,
                   kDict = 1 << 29;
constexpr double kBase = 1 << 30;  // of the digits of an int

std::string quoted(std::string_view text, const char* begin) {
  std::string out = begin;
  size_t characters = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) != 0x80 && ++characters > kMostText) return out + "…'";
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    if (c == '\n')
      out += "\\n";
    else if (c == '\'' || c == '\\')
      out += std::string("\\") + c;
    else if (byte < 0x20 || byte == 0x7f)
      out += escaped;
    else
      out += c;
  }
  return out + "'";
}

/// As Python prints it: the fewest digits that say it.
std::string floatText(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, v);
    if (std::strtod(text, nullptr) == v) break;
  }
  std::string out = text;
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

/// Of the digits to the base 2^30, the lowest first.
std::string intText(std::vector<uint32_t> digits, bool negative) {
  std::string out;
  while (!digits.empty()) {  // divide by ten again and again
    uint64_t rest = 0;
    for (size_t i = digits.size(); i-- > 0;) {
      const uint64_t now = rest << 30 | digits[i];
      digits[i] = static_cast<uint32_t>(now / 10);
      rest = now % 10;
    }
    out += static_cast<char>('0' + rest);
    while (!digits.empty() && digits.back() == 0) digits.pop_back();
  }
  if (out.empty()) return "0";
  if (negative) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

std::string PythonStacks::className(uint64_t object, uint64_t& flags) {
  const PythonLayout& l = python_.layout;
  flags = 0;
  if (object == 0 || object % 8 != 0) return {};
  const uint64_t type = pointer(object + l.object_type);
  if (type == 0 || type % 8 != 0) return {};
  flags = pointer(type + l.type_flags);
  const uint64_t name = pointer(type + l.type_name);
  std::string text;
  for (char c = 0; text.size() < kMostName; text += c) {
    const std::optional<char> next = name ? memory_.get<char>(name + text.size()) : std::nullopt;
    if (!next) return {};
    if ((c = *next) == 0) break;
  }
  std::string clean;
  appendUtf8(clean, text);
  return clean.substr(clean.rfind('.') + 1);
}

std::vector<uint64_t> PythonStacks::tuple(uint64_t object, uint64_t most) {
  const PythonLayout& l = python_.layout;
  uint64_t flags = 0;
  if (className(object, flags).empty() || !(flags & kTuple)) return {};
  const uint64_t count = pointer(object + l.tuple_length);
  if (count > most) return {};
  std::vector<uint64_t> items(count);
  if (!memory_.read(object + l.tuple_items, items.data(), count * 8)) return {};
  return items;
}

std::string PythonStacks::itemsOf(uint64_t items, uint64_t count, int depth) {
  std::string out;
  for (uint64_t i = 0; i < std::min(count, kMostItems) && out.size() < kMostText; ++i)
    out += (i > 0 ? ", " : "") + valueOf(pointer(items + 8 * i), depth);
  return count > kMostItems ? out + ", … " + std::to_string(count) + " in all" : out;
}

std::string PythonStacks::valueOf(uint64_t object, int depth) {
  const PythonLayout& l = python_.layout;
  uint64_t flags = 0;
  const std::string name = className(object, flags);
  if (name.empty()) return "?";
  if (name == "NoneType") return "None";
  if (name == "float") {
    const std::optional<double> v = memory_.get<double>(object + l.float_value);
    return v ? floatText(*v) : "?";
  }
  if (flags & kInt) {
    const std::optional<int64_t> size = memory_.get<int64_t>(object + l.int_length);
    if (!size) return "?";
    // From 3.12 on the sign is in the lowest bits of the length.
    const bool tagged = l.version >= std::pair(3, 12);
    const uint64_t count =
        tagged ? static_cast<uint64_t>(*size) >> 3 : static_cast<uint64_t>(*size < 0 ? -*size : *size);
    const bool negative = tagged ? (*size & 3) == 2 : *size < 0;
    if (count > kMostDigits) return name + " of about " + std::to_string(count * 9) + " digits";
    std::vector<uint32_t> digits(count);
    if (!memory_.read(object + l.int_digits, digits.data(), count * 4)) return "?";
    for (const uint32_t d : digits)
      if (d >= kBase) return "?";
    while (!digits.empty() && digits.back() == 0) digits.pop_back();
    if (name == "bool") return digits.empty() ? "False" : "True";
    return intText(std::move(digits), negative);
  }
  if (flags & kText) {
    const std::optional<std::string> text = readString(object);
    if (!text) return name + " of " + std::to_string(pointer(object + l.string_length)) + " characters";
    std::string clean;
    appendUtf8(clean, *text);
    return quoted(clean, "'");
  }
  if (flags & kBytes) {
    const uint64_t length = pointer(object + l.bytes_length);
    if (length > kMostText) return name + " of " + std::to_string(length) + " bytes";
    const std::optional<std::string> bytes = readBytes(object);
    std::string clean;
    if (bytes) appendUtf8(clean, *bytes);
    return bytes ? quoted(clean, "b'") : "?";
  }
  if (flags & kDict) return name + " of " + std::to_string(pointer(object + l.float_value)) + " items";
  if (name == "cell") {
    const uint64_t inside = pointer(object + l.float_value);
    return inside && depth > 0 ? valueOf(inside, depth - 1) : "";
  }
  if (flags & (kList | kTuple)) {
    const bool is_list = flags & kList;
    const uint64_t count = pointer(object + (is_list ? l.list_length : l.tuple_length));
    if (depth == 0) return name + " of " + std::to_string(count) + " items";
    const uint64_t items = is_list ? pointer(object + l.list_items) : object + l.tuple_items;
    const std::string inside = itemsOf(items, count, depth - 1);
    if (is_list) return "[" + inside + "]";
    return "(" + inside + (count == 1 ? ",)" : ")");
  }
  return "<" + name + ">";
}

std::vector<PythonVariable> PythonStacks::variables(const RawFrame& frame) {
  const PythonLayout& l = python_.layout;
  std::vector<uint64_t> names;
  for (const uint32_t field : {l.code_variables, l.code_cells, l.code_free})
    if (field != PythonLayout::kNone)
      for (const uint64_t name : tuple(pointer(frame.code + field), kMostVariables)) names.push_back(name);
  const auto there = [&] { return (pointer(frame.address + l.frame_code) & ~uint64_t{3}) == frame.code; };
  if (frame.address == 0 || names.size() > kMostVariables || !there()) return {};
  std::vector<PythonVariable> out;
  for (size_t i = 0; i < names.size(); ++i) {
    const uint64_t object = pointer(frame.address + l.frame_locals + 8 * i) & ~uint64_t{3};  // marks, from 3.14 on
    if (object == 0) continue;                                                               // it has no value (yet)
    const std::optional<std::string> name = readString(names[i]);
    if (!name) continue;
    PythonVariable variable;
    appendUtf8(variable.name, *name);
    variable.value = valueOf(object, kDeepest);
    if (variable.value.empty()) continue;
    const size_t text = variable.value.find('\'');  // numbers and objects are no secrets, whatever their name is
    if (text != std::string::npos && mayBeSecret(variable.name, variable.value.substr(text + 1)))
      variable.value = "***";
    out.push_back(std::move(variable));
  }
  memory_.forget();
  return there() ? out : std::vector<PythonVariable>();
}

}  // namespace tracesmith::process
