// Walks over JSON text in memory without building anything: what it passed is valid JSON, and slices of it can be kept.
// The text must be followed by a NUL and 63 readable bytes.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tracesmith::trace {

/// s == literal, without a call.
template <size_t N>
bool is(std::string_view s, const char (&literal)[N]) {
  return s.size() == N - 1 && std::memcmp(s.data(), literal, N - 1) == 0;
}

/// First quote, backslash or control character at or after p. There is one: the NUL at the end.
inline const char* findSpecial(const char* p) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1f);
  for (;; p += 16) {
    __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    __m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash)),
                               _mm_cmpeq_epi8(_mm_min_epu8(v, control), v));
    if (auto mask = static_cast<unsigned>(_mm_movemask_epi8(hit))) return p + std::countr_zero(mask);
  }
#else
  while (*p != '"' && *p != '\\' && static_cast<unsigned char>(*p) >= 0x20) ++p;
  return p;
#endif
}

inline bool isSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// First byte at or after p that is no blank: lines of pretty-printed JSON begin with many.
inline const char* skipBlanks(const char* p) {
#if defined(__SSE2__)
  if (*p != ' ') return p;
  for (const __m128i blank = _mm_set1_epi8(' ');; p += 16) {
    auto other = ~static_cast<unsigned>(
        _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), blank)));
    if (other & 0xffff) return p + std::countr_zero(other);
  }
#else
  while (*p == ' ') ++p;
  return p;
#endif
}

/// A place in JSON text. A method that returns false ran out of bytes (error is nullptr), or met something wrong at
/// `p`.
struct JsonCursor {
  static constexpr int kMaxDepth = 1024;

  const char* p;
  const char* end;
  const char* error = nullptr;
  bool not_finite = false;  ///< passed NaN, Infinity or the like, which JSON does not have

  bool fail(const char* why) {
    if (p < end) error = why;
    return false;
  }
  void space() {
    while (static_cast<unsigned char>(*p) <= ' ' && isSpace(*p)) {
      ++p;
      p = skipBlanks(p);
    }
  }
  /// Passes a string that begins here; its content without the quotes, as written. `escaped`: holds a backslash.
  bool string(std::string_view& content, bool& escaped) {
    escaped = false;
    const char* begin = ++p;
    p = findSpecial(p);
    if (*p != '"' && !restOfString(escaped)) return false;
    content = std::string_view(begin, static_cast<size_t>(p - begin));
    ++p;
    return true;
  }
  /// Passes any value, whatever is in it.
  bool value();
  /// Passes `: ` after a key.
  bool colon() {
    space();
    if (*p != ':') return fail("expected ':' after a key");
    ++p;
    space();
    return true;
  }

 private:
  /// From a character that findSpecial() stopped at to the closing quote.
  bool restOfString(bool& escaped);
  bool scalar();
  bool number();
  bool literal(std::string_view word);
};

/// Content of a JSON string as UTF-8. A lone half of a surrogate pair becomes U+FFFD.
void appendUnescaped(std::string& out, std::string_view content);
/// Appends JSON text, leaving out line breaks and the indentation after them (a string cannot hold one).
void appendCompact(std::string& out, std::string_view json);
/// Replaces NaN, Infinity and the like by null in JSON text that a JsonCursor passed.
std::string withoutNonFinite(std::string_view json);

/// Text of µs to ns, exactly: "123456.789" → 123456789. More than three decimals are rounded. Quotes around it are
/// ignored.
bool parseMicros(std::string_view token, int64_t& ns);
/// An integer token, also "7" in quotes, also 7.0. False if it has a fraction or does not fit.
bool parseToken(std::string_view token, int64_t& value);
bool parseToken(std::string_view token, double& value);

}  // namespace tracesmith::trace
