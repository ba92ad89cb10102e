#include "model/travel_lines.hpp"

#include <charconv>
#include <concepts>

#include "base/text.hpp"

namespace tracesmith::model {
namespace {

/// Of the items of a list: "nodes" are lines called "node".
constexpr std::string_view itemName(std::string_view list) { return list.substr(0, list.size() - 1); }

std::string valueText(const std::string& value) { return value; }
std::string valueText(bool value) { return value ? "1" : "0"; }
std::string valueText(std::integral auto value) { return std::to_string(value); }
std::string valueText(double value) {
  std::string text;
  appendJsonNumber(text, value);
  return text;
}

std::string_view firstWord(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

/// Values from the front of a text; a text is all that is left. What is no number leaves `out` as it is.
void takeValue(std::string_view& text, std::string& out) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  out = text;
  text = {};
}
void takeValue(std::string_view& text, bool& out) { out = firstWord(text) == "1"; }
template <typename Number>
void takeValue(std::string_view& text, Number& out) {
  const std::string_view word = firstWord(text);
  std::from_chars(word.data(), word.data() + word.size(), out);
}

void addLine(std::string& out, std::string_view key, const std::string& value) {
  out.append(key) += ' ';
  for (char c : value) out += c == '\n' ? ' ' : c;
  out += '\n';
}

void addWord(std::string& out, std::string_view key, const std::string& value) {
  if (!out.empty()) out += ' ';
  out.append(key) += '=';
  for (char c : value) {
    if (c == ' ' || c == '%' || c == '\n') {
      constexpr const char* kDigits = "0123456789ABCDEF";
      ((out += '%') += kDigits[c >> 4]) += kDigits[c & 15];
    } else {
      out += c;
    }
  }
}

std::string unescaped(std::string_view word) {
  std::string out;
  for (size_t i = 0; i < word.size(); ++i) {
    unsigned code = 0;
    if (word[i] == '%' && i + 2 < word.size() &&
        std::from_chars(&word[i + 1], &word[i + 1] + 2, code, 16).ec == std::errc()) {
      out += static_cast<char>(code);
      i += 2;
    } else {
      out += word[i];
    }
  }
  return out;
}

template <typename T>
void readLines(std::string_view text, T& out) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view key = firstWord(line);
    takeField(key, line, out);
  }
}

template <typename T>
void readLine(std::string_view line, const char* const* names, T& out) {
  const bool named = line.substr(0, line.find(' ')).find('=') != std::string_view::npos;
  if (!named) {
    std::string_view word = firstWord(line);  // also of a text
    if (*names) takeField(*names++, word, out);
    for (; *names && !line.empty(); ++names) takeField(*names, line, out);
  }
  while (named && !line.empty()) {
    const std::string_view word = firstWord(line);
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string value = unescaped(word.substr(equals + 1));
    std::string_view rest = value;
    takeField(word.substr(0, equals), rest, out);
  }
}

// The fields of a part, in order.
#define STRUCT(Name, Message, doc) constexpr const char* kFieldsOf##Name[] = {
#define STRUCT_OF(Name, Message, Base, doc) STRUCT(Name, Message, doc)
#define FIELD(Struct, Kind, name, doc) #name,
#define MAYBE(Struct, Kind, name, doc) #name,
#define CHOICE(Struct, Enum, name, doc) #name,
#define END_STRUCT(Name) \
  nullptr                \
  }                      \
  ;
#include "model/travel.def"

// addLines: the lines of a struct.
#define STRUCT(Name, Message, doc) [[maybe_unused]] void addLines(std::string& out, const Name& s) {
#define STRUCT_OF(Name, Message, Base, doc) \
  STRUCT(Name, Message, doc)                \
  addLines(out, static_cast<const Base&>(s));
#define FIELD(Struct, Kind, name, doc) addLine(out, #name, valueText(s.name));
#define MAYBE(Struct, Kind, name, doc) \
  if (s.name) addLine(out, #name, valueText(*s.name));
#define LIST(Struct, Kind, name, most, doc) \
  for (const auto& item : s.name) addLine(out, itemName(#name), valueText(item));
#define CHOICE(Struct, Enum, name, doc) addLine(out, #name, nameOf(s.name));
#define PART(Struct, Other, name, doc) addLine(out, #name, toLine(s.name));
#define MAYBE_PART(Struct, Other, name, doc) \
  if (s.name) addLine(out, #name, toLine(*s.name));
#define PARTS(Struct, Other, name, most, doc) \
  for (const Other& item : s.name) addLine(out, itemName(#name), toLine(item));
#define END_STRUCT(Name) }
#include "model/travel.def"

}  // namespace

// takeField
#define STRUCT(Name, Message, doc) bool takeField(std::string_view key, std::string_view& value, Name& s) {
#define STRUCT_OF(Name, Message, Base, doc) \
  STRUCT(Name, Message, doc)                \
  if (takeField(key, value, static_cast<Base&>(s))) return true;
#define FIELD(Struct, Kind, name, doc) \
  if (key == #name) return takeValue(value, s.name), true;
#define MAYBE(Struct, Kind, name, doc) \
  if (key == #name) return takeValue(value, s.name.emplace()), true;
#define LIST(Struct, Kind, name, most, doc) \
  if (key == itemName(#name)) return takeValue(value, s.name.emplace_back()), true;
#define CHOICE(Struct, Enum, name, doc) \
  if (key == #name) return fromName(firstWord(value), s.name), true;
#define PART(Struct, Other, name, doc) \
  if (key == #name) return fromLine(value, s.name), true;
#define MAYBE_PART(Struct, Other, name, doc) \
  if (key == #name) return fromLine(value, s.name.emplace()), true;
#define PARTS(Struct, Other, name, most, doc) \
  if (key == itemName(#name)) return fromLine(value, s.name.emplace_back()), true;
#define END_STRUCT(Name) \
  return false;          \
  }
#include "model/travel.def"

// The rest
#define STRUCT(Name, Message, doc)                                          \
  std::string toLines(const Name& s) {                                      \
    std::string out;                                                        \
    addLines(out, s);                                                       \
    return out;                                                             \
  }                                                                         \
  void fromLines(std::string_view text, Name& s) { readLines(text, s); }    \
  void fromLine(std::string_view line, Name& s) {                           \
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size())); \
    readLine(line, kFieldsOf##Name, s);                                     \
  }                                                                         \
  std::string toLine(const Name& s) {                                       \
    std::string out;
#define STRUCT_OF(Name, Message, Base, doc) \
  STRUCT(Name, Message, doc)                \
  out = toLine(static_cast<const Base&>(s));
#define FIELD(Struct, Kind, name, doc) addWord(out, #name, valueText(s.name));
#define MAYBE(Struct, Kind, name, doc) \
  if (s.name) addWord(out, #name, valueText(*s.name));
#define CHOICE(Struct, Enum, name, doc) addWord(out, #name, nameOf(s.name));
#define END_STRUCT(Name) \
  static_cast<void>(s);  \
  return out;            \
  }
#include "model/travel.def"

}  // namespace tracesmith::model
