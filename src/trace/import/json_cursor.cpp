#include "trace/import/json_cursor.hpp"

#include "base/utf8.hpp"

namespace tracesmith::trace {
namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }

int hexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// First byte at or after p that is no white space, or end. Unlike JsonCursor it reads nothing beyond the end.
const char* skipSpace(const char* p, const char* end) {
#if defined(__SSE2__)
  for (const __m128i blank = _mm_set1_epi8(' '); end - p >= 16; ++p) {
    auto other = ~static_cast<unsigned>(
        _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), blank)));
    p += other & 0xffff ? std::countr_zero(other) : 15;
    if (!isSpace(*p)) return p;
  }
#endif
  while (p < end && isSpace(*p)) ++p;
  return p;
}

uint32_t hex4(std::string_view s, size_t at) {
  uint32_t v = 0;
  for (size_t i = at; i < at + 4 && i < s.size(); ++i) v = v << 4 | static_cast<uint32_t>(hexDigit(s[i]));
  return v;
}

}  // namespace

bool JsonCursor::restOfString(bool& escaped) {
  for (; *p != '"'; p = findSpecial(p)) {
    if (*p != '\\') return fail("control character in a string");
    escaped = true;
    ++p;
    switch (*p) {
      case '"':
      case '\\':
      case '/':
      case 'b':
      case 'f':
      case 'n':
      case 'r':
      case 't':
        ++p;
        break;
      case 'u':
        ++p;
        for (int i = 0; i < 4; ++i, ++p)
          if (hexDigit(*p) < 0) return fail("bad \\u escape");
        break;
      default:
        return fail("bad escape in a string");
    }
  }
  return true;
}

bool JsonCursor::number() {
  if (*p == '-') ++p;
  if (*p == '0') {
    ++p;
  } else {
    if (*p == 'I' || *p == 'i' || *p == 'N' || (*p == 'n' && p[1] == 'a')) return scalar();
    if (*p == 'n' && p + 1 == end) ++p;
    if (!isDigit(*p)) return fail("bad number");
    while (isDigit(*p)) ++p;
  }
  if (*p == '.') {
    ++p;
    if (!isDigit(*p)) return fail("bad number");
    while (isDigit(*p)) ++p;
  }
  if (*p == 'e' || *p == 'E') {
    ++p;
    if (*p == '+' || *p == '-') ++p;
    if (!isDigit(*p)) return fail("bad number");
    while (isDigit(*p)) ++p;
  }
  // Whether it goes on is in the next window.
  return p < end || fail("");
}

bool JsonCursor::literal(std::string_view word) {
  for (char c : word) {
    if (*p != c) return fail("expected a value");
    ++p;
  }
  return true;
}

bool JsonCursor::scalar() {
  switch (*p) {
    case 't':
      return literal("true");
    case 'f':
      return literal("false");
    case 'n':
      if (p[1] == 'a') break;
      return literal("null");
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
      return number();
    default:
      break;
  }
  // Python writes NaN and Infinity, C++ programs nan and inf.
  const char* word = *p == 'N' ? "NaN" : *p == 'n' ? "nan" : *p == 'I' ? "Infinity" : *p == 'i' ? "inf" : nullptr;
  if (!word) return fail("expected a value");
  not_finite = true;
  return literal(word);
}

bool JsonCursor::value() {
  std::string_view content;
  bool escaped;
  if (*p == '"') return string(content, escaped);
  if (*p != '{' && *p != '[') return scalar();
  // One bit a level: 1 = object.
  uint64_t levels[kMaxDepth / 64] = {};
  int depth = 0;
  bool object = false;
  for (;;) {
    // A value begins here.
    if (*p == '{' || *p == '[') {
      if (depth == kMaxDepth) return fail("nested too deeply");
      object = *p == '{';
      uint64_t bit = 1ull << (depth % 64);
      uint64_t& word = levels[depth / 64];
      word = object ? word | bit : word & ~bit;
      ++depth;
      ++p;
      space();
      if (*p != (object ? '}' : ']')) {
        if (!object) continue;
        if (*p != '"') return fail("expected a key");
        if (!string(content, escaped) || !colon()) return false;
        continue;
      }
    } else if (*p == '"') {
      if (!string(content, escaped)) return false;
      space();
    } else {
      if (!scalar()) return false;
      space();
    }
    // A value ended here.
    for (;;) {
      if (*p == ',') {
        ++p;
        space();
        if (object) {
          if (*p != '"') return fail("expected a key");
          if (!string(content, escaped) || !colon()) return false;
        }
        break;
      }
      if (*p != (object ? '}' : ']')) return fail(object ? "expected ',' or '}'" : "expected ',' or ']'");
      ++p;
      if (--depth == 0) return true;
      object = levels[(depth - 1) / 64] >> ((depth - 1) % 64) & 1;
      space();
    }
  }
}

void appendUnescaped(std::string& out, std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    size_t next = s.find('\\', i);
    if (next == std::string_view::npos) next = s.size();
    out.append(s.substr(i, next - i));
    if (next + 1 >= s.size()) return;
    char c = s[next + 1];
    i = next + 2;
    switch (c) {
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'u': {
        uint32_t v = hex4(s, i);
        i += 4;
        if (v >= 0xd800 && v < 0xdc00 && i + 6 <= s.size() && s[i] == '\\' && s[i + 1] == 'u') {
          uint32_t low = hex4(s, i + 2);
          if (low >= 0xdc00 && low < 0xe000) {
            v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
            i += 6;
          }
        }
        appendCodePoint(out, v >= 0xd800 && v < 0xe000 ? 0xfffd : v);
        break;
      }
      default:
        out += c;
    }
  }
}

void appendCompact(std::string& out, std::string_view json) {
  const size_t before = out.size();
  out.resize(before + json.size());
  char *to = out.data() + before, *const begin = to;
  const char *p = json.data(), *const end = p + json.size();
  while (p < end) {
    // Up to the next line break, 16 bytes at a time: what is copied too much is overwritten.
#if defined(__SSE2__)
    if (end - p >= 16) {
      __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), v);
      auto lines = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8('\n'))));
      int n = lines ? std::countr_zero(lines) : 16;
      p += n;
      to += n;
      if (!lines) continue;
    }
#endif
    if (*p != '\n') {
      *to++ = *p++;
      continue;
    }
    while (to > begin && isSpace(to[-1])) --to;
    p = skipSpace(p, end);
  }
  out.resize(before + static_cast<size_t>(to - begin));
}

std::string withoutNonFinite(std::string_view json) {
  std::string out;
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (quoted) {
      out += c;
      if (c == '\\' && i + 1 < json.size()) out += json[++i];
      quoted = c != '"';
      continue;
    }
    bool minus = c == '-' && i + 1 < json.size() && (json[i + 1] < '0' || json[i + 1] > '9');
    if (minus || c == 'N' || c == 'I' || c == 'i' || (c == 'n' && i + 1 < json.size() && json[i + 1] == 'a')) {
      out += "null";
      while (i + 1 < json.size() && ((json[i + 1] | 32) >= 'a' && (json[i + 1] | 32) <= 'z')) ++i;
      continue;
    }
    quoted = c == '"';
    out += c;
  }
  return out;
}

}  // namespace tracesmith::trace
