// Walks over JSON text in memory without building anything: what it passed is valid JSON, and slices of it can be kept.
// The text must be followed by a NUL and 63 readable bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tracesmith::trace {

/// A place in JSON text. A method that returns false ran out of bytes (error is nullptr), or met something wrong at `p`.
struct JsonCursor {
  static constexpr int kMaxDepth = 1024;

  const char* p;
  const char* end;
  const char* error = nullptr;
  bool not_finite = false;  ///< passed NaN, Infinity or the like, which JSON has not

  bool fail(const char* why) {
    if (p < end) error = why;
    return false;
  }
  void space() {
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t') ++p;
  }
  /// Passes a string that begins here; its content without the quotes, as written. `escaped`: holds a backslash.
  bool string(std::string_view& content, bool& escaped);
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

/// Text of µs to ns, exactly: "123456.789" → 123456789. More than three decimals are rounded. Quotes around it are ignored.
bool parseMicros(std::string_view token, int64_t& ns);
/// An integer token, also "7" in quotes, also 7.0. False if it has a fraction or does not fit.
bool parseToken(std::string_view token, int64_t& value);
bool parseToken(std::string_view token, double& value);

}  // namespace tracesmith::trace
