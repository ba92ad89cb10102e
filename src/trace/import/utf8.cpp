#include "trace/import/utf8.hpp"

#include <simdjson.h>

namespace tracesmith::trace {
namespace {

/// Length of the character that `lead` begins, 0 if none begins with it.
size_t utf8Length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

}  // namespace

uint64_t repairUtf8(char* p, char* end) {
  if (simdjson::validate_utf8(p, static_cast<size_t>(end - p))) return 0;
  uint64_t bad = 0;
  while (p < end) {
    size_t n = utf8Length(static_cast<unsigned char>(*p));
    if (n == 1) {
      ++p;
    } else if (n > 0 && n <= static_cast<size_t>(end - p) && simdjson::validate_utf8(p, n)) {
      p += n;
    } else {
      *p++ = '?';
      ++bad;
    }
  }
  return bad;
}

char* cutCharacter(char* begin, char* end) {
  for (char* p = end; p > begin && end - p < 4;) {
    --p;
    auto c = static_cast<unsigned char>(*p);
    if ((c & 0xc0) == 0x80) continue;  // not a first byte
    return utf8Length(c) > static_cast<size_t>(end - p) ? p : end;
  }
  return end;
}

std::string_view utf8Prefix(std::string_view s, size_t bytes) {
  if (s.size() <= bytes) return s;
  while (bytes > 0 && (static_cast<unsigned char>(s[bytes]) & 0xc0) == 0x80) --bytes;
  return s.substr(0, bytes);
}

}  // namespace tracesmith::trace
